package zklock

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// faultTTL is what the clients of the fault tests use: some of the faults take
// two seconds to be noticed by the servers themselves.
const faultTTL = 5 * time.Second

// A faultyEnsemble is three nodes whose links to each other can be cut.
type faultyEnsemble struct {
	*testserver.Ensemble
	mu    sync.Mutex // guards what follows
	links map[[2]int][]*faultproxy.Proxy
	maps  [3]map[string]string // for each node, where it finds the ports of the others
}

func newFaultyEnsemble(t *testing.T) *faultyEnsemble {
	g := &faultyEnsemble{links: map[[2]int][]*faultproxy.Proxy{}, maps: [3]map[string]string{{}, {}, {}}}
	g.Ensemble = testserver.ZooKeepers(t, 3, func(from, to int, addr string) string {
		link := faultproxy.New(t, waitingProxy(t, addr, func(hello []byte) []byte { return g.translate(to, hello) }))
		g.mu.Lock()
		defer g.mu.Unlock()
		g.links[[2]int{from, to}] = append(g.links[[2]int{from, to}], link)
		g.maps[from][addr] = link.Addr()
		return link.Addr()
	})
	return g
}

// translate has a node find another where the map says. One that is called by a
// node with a smaller number hangs up and calls back, at the address that it was
// told; that link would not be cut with the rest.
func (g *faultyEnsemble) translate(node int, hello []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for own, found := range g.maps[node] {
		hello = bytes.ReplaceAll(hello, []byte(own), []byte(found))
	}
	return hello
}

// cut cuts the ways between two nodes; heal opens them again, with new connections.
func (g *faultyEnsemble) cut(a, b int) {
	for _, link := range append(g.links[[2]int{a, b}], g.links[[2]int{b, a}]...) {
		link.BlackHole(faultproxy.Both)
	}
}

func (g *faultyEnsemble) heal() {
	for _, links := range g.links {
		for _, link := range links {
			link.Reset()
			link.Heal()
		}
	}
}

// serving counts the time in which these nodes take writes; none given: all.
func (g *faultyEnsemble) serving(t *testing.T, nodes ...int) *testserver.Service {
	t.Helper()
	e := connect(t, g.addrs(nodes...), WithPath(pathOf(t)))
	return testserver.Serving(t, func(ctx context.Context) error { return e.barrier(ctx, e.main) })
}

// addrs returns where these nodes serve; none given: all.
func (g *faultyEnsemble) addrs(nodes ...int) []string {
	if len(nodes) == 0 {
		return g.Addrs()
	}
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, g.Nodes[n].Addr())
	}
	return addrs
}

// client returns a client that uses these nodes only; none given: all.
func (g *faultyEnsemble) client(t *testing.T, path string, nodes ...int) *pawl.Client {
	t.Helper()
	c := pawl.New(connect(t, g.addrs(nodes...), WithPath(path)), pawl.WithTTL(faultTTL))
	t.Cleanup(func() { c.Close() })
	// A client that never had an answer gives up soon; these have had one.
	if err := c.Mutex("hello/"+newID()).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return c
}
