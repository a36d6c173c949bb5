package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An Ensemble is several ZooKeeper nodes that elect a leader. Its nodes can be
// started, stopped and paused one by one, each like a [ZooKeeper].
type Ensemble struct {
	Nodes []*Server
	t     testing.TB
}

// Reach returns the address, on 127.0.0.1, at which one node of a cluster reaches a
// port of another, whose own address is addr. A test puts a faulty network there,
// to cut a node off from the others while clients still reach all. ZooKeeper has
// two such ports, for followers and for elections, and asks for both.
type Reach func(from, to int, addr string) string

// ZooKeepers starts an ensemble of n nodes and returns when all of them serve. A
// node that has not heard from its leader for two seconds, or a leader that has not
// heard from a majority, stops serving. With a nil reach the network has no faults.
// lines are as for [ZooKeeper].
func ZooKeepers(t testing.TB, n int, reach Reach, lines ...string) *Ensemble {
	t.Helper()
	if reach == nil {
		reach = func(_, _ int, addr string) string { return addr }
	}
	ports := make([][2]int, n) // for followers, and for elections
	for i := range ports {
		ports[i] = [2]int{FreePort(t), FreePort(t)}
	}
	e := &Ensemble{t: t}
	for i := range n {
		config := []string{"initLimit=50", "syncLimit=10"}
		for j, p := range ports {
			follow, elect := fmt.Sprintf("127.0.0.1:%d", p[0]), fmt.Sprintf("127.0.0.1:%d", p[1])
			if i != j {
				follow, elect = reach(i, j, follow), reach(i, j, elect)
			}
			config = append(config, fmt.Sprintf("server.%d=%s:%s", j+1, follow, elect[strings.LastIndex(elect, ":")+1:]))
		}
		e.Nodes = append(e.Nodes, Start(t, ensembleNode(i+1, append(config, lines...))))
	}
	e.Await()
	return e
}

// ZooKeeperNode starts one node, which counts as started once it listens: without lines of
// servers it is alone, and with them node id of an ensemble that the test makes.
func ZooKeeperNode(t testing.TB, id int, lines ...string) *Server {
	t.Helper()
	return Start(t, ensembleNode(id, lines))
}

// ensembleNode is a node that counts as started once it listens: it only serves
// with a majority of the others.
func ensembleNode(id int, lines []string) Spec {
	spec := zooKeeper()
	spec.Ready = nil
	spec.Prepare = func(_ context.Context, s *Server) error {
		data := filepath.Join(s.Dir(), "data")
		if err := os.Mkdir(data, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, id), 0o644); err != nil {
			return err
		}
		return writeZooKeeperConfig(s, lines)
	}
	spec.Args = func(s *Server) []string {
		return zooKeeperArgs(s, "org.apache.zookeeper.server.quorum.QuorumPeerMain", lines)
	}
	return spec
}

// Addrs returns the addresses for clients.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.Nodes))
	for i, s := range e.Nodes {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Await returns when these nodes serve; by default all.
func (e *Ensemble) Await(nodes ...int) {
	e.t.Helper()
	if len(nodes) == 0 {
		for i := range e.Nodes {
			nodes = append(nodes, i)
		}
	}
	e.await("serving", nodes, func(modes []string) bool { return !slices.Contains(modes, "") })
}

// Leader returns the index of the leader, once one of these nodes leads; by default
// of all. Paused nodes must not be among them.
func (e *Ensemble) Leader(nodes ...int) int {
	e.t.Helper()
	if len(nodes) == 0 {
		for i := range e.Nodes {
			nodes = append(nodes, i)
		}
	}
	leader := -1
	e.await("a leader", nodes, func(modes []string) bool {
		leader = slices.Index(modes, "leader")
		return leader >= 0
	})
	return nodes[leader]
}

// await polls the nodes for their modes until enough returns true; a node that does
// not serve has none.
func (e *Ensemble) await(what string, nodes []int, enough func(modes []string) bool) {
	e.t.Helper()
	modes := make([]string, len(nodes))
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(20 * time.Millisecond) { // poll: there is no notification
		for i, n := range nodes {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			modes[i], _ = zooKeeperMode(ctx, e.Nodes[n])
			cancel()
		}
		if enough(modes) {
			return
		}
	}
	e.t.Fatalf("zookeeper: waited a minute for %s, modes are %q", what, strings.Join(modes, " "))
}
