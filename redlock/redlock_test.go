package redlock_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
	_ "github.com/pawl-go/pawl/redlock"
)

// servers starts n independent Redis servers.
func servers(t testing.TB, n int) (all []*testserver.Server) {
	t.Helper()
	for range n {
		all = append(all, testserver.Redis(t))
	}
	return all
}

func addrs(all []*testserver.Server) (hosts []string) {
	for _, s := range all {
		hosts = append(hosts, s.Addr())
	}
	return hosts
}

// open opens an engine by URL.
func open(t *testing.T, hosts []string, query string) driver.Engine {
	t.Helper()
	opener, ok := driver.Lookup("redlock")
	if !ok {
		t.Fatal("redlock: is not registered")
	}
	u, err := url.Parse("redlock://" + strings.Join(hosts, ",") + "?" + query)
	if err != nil {
		t.Fatal(err)
	}
	e, err := opener(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const lawful = "max-ttl=20s" // time enough for what the laws expect to be kept

// law is the harness of engines that are made for a side, 0 for a case's own engine
// and 1 for its peer, and for a case's prefix.
func law(make func(t *testing.T, side int, prefix string) driver.Engine) drivertest.Harness {
	var prefixes sync.Map // of engines
	return drivertest.Harness{
		Open: func(t *testing.T) driver.Engine {
			prefix := newPrefix()
			e := make(t, 0, prefix)
			prefixes.Store(e, prefix)
			return e
		},
		Peer: func(t *testing.T, e driver.Engine) driver.Engine {
			prefix, _ := prefixes.Load(e)
			return make(t, 1, prefix.(string))
		},
		MinTTL: 600 * time.Millisecond,
		MaxTTL: 20 * time.Second,
	}
}

func TestLaws(t *testing.T) {
	t.Parallel()
	lawsOn(t, common(t, 5))
}

// TestSoakLawsOnThreeAndOnFourServers repeats the laws for as long as PAWL_SOAK says.
// What the number changes is in package quorum, whose laws run on three and on four
// nodes as well.
func TestSoakLawsOnThreeAndOnFourServers(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	for began, round := time.Now(), 0; (round < 2 || time.Since(began) < d) && !t.Failed(); round++ {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { lawsOn(t, common(t, 3+round%2)) })
	}
}

// lawsOn runs the suite with engines that are opened by URL, beside peers on clients
// that all cases share.
func lawsOn(t *testing.T, on []*testserver.Server) {
	f := &field{servers: on, query: lawful}
	f.ripen(t)
	onClients := f.onClients(t)
	h := law(func(t *testing.T, side int, prefix string) driver.Engine {
		if side == 1 {
			return onClients(t, side, prefix)
		}
		return open(t, addrs(f.servers), lawful+"&prefix="+prefix)
	})
	h.Stays = func(stack string) bool {
		return strings.Contains(stack, "github.com/redis/rueidis.") && !strings.Contains(stack, "github.com/pawl-go/pawl")
	}
	drivertest.Run(t, h)
}

// lent is an engine on clients that outlive it.
type lent struct {
	*quorum.Engine
	nodes []quorum.Node
}

func (l *lent) Close() error {
	errs := []error{l.Engine.Close()}
	for _, n := range l.nodes {
		errs = append(errs, n.Engine.Close())
	}
	return errors.Join(errs...)
}

// onClients returns what makes engines on two clients of each server, as programs
// do that have clients: connections of its own for every engine are most of what a
// case costs.
func (f *field) onClients(t *testing.T) func(t *testing.T, side int, prefix string) driver.Engine {
	t.Helper()
	var clients [2][]redis.Client
	for side := range clients {
		for _, s := range f.servers {
			c, err := redis.NewClient(small(s.Addr()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			clients[side] = append(clients[side], c)
		}
	}
	return func(t *testing.T, side int, prefix string) driver.Engine {
		var nodes []quorum.Node
		for i, c := range clients[side] {
			nodes = append(nodes, quorum.Node{Name: f.servers[i].Addr(), Engine: rueidis.New(c, redislock.WithPrefix(prefix))})
		}
		e, err := quorum.New(nodes, quorum.WithMaxTTL(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return &lent{e, nodes}
	}
}
