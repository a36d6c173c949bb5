package redlock_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redlock"
)

const lawsMaxTTL = "max-ttl=20s" // as long as the longest TTL in the suite

// harness returns the harness of engines that open opens for a side (0 for a case's own
// engine, 1 for its peer) and the case's prefix.
func harness(open func(t *testing.T, side int, prefix string) driver.Engine) drivertest.Harness {
	var prefixes sync.Map // by engine
	return drivertest.Harness{
		Open: func(t *testing.T) driver.Engine {
			prefix := newPrefix()
			e := open(t, 0, prefix)
			prefixes.Store(e, prefix)
			return e
		},
		Peer: func(t *testing.T, e driver.Engine) driver.Engine {
			prefix, _ := prefixes.Load(e)
			return open(t, 1, prefix.(string))
		},
		MinTTL: 600 * time.Millisecond,
		MaxTTL: 20 * time.Second,
	}
}

func TestLaws(t *testing.T) {
	t.Parallel()
	lawsOn(t, sharedServers(t, 5))
}

// TestSoakLawsOnThreeAndOnFourServers repeats the laws for the duration PAWL_SOAK. Only
// package quorum depends on the number of servers, and its own tests run the laws on three
// and four nodes each time.
func TestSoakLawsOnThreeAndOnFourServers(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	for start, round := time.Now(), 0; (round < 2 || time.Since(start) < d) && !t.Failed(); round++ {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { lawsOn(t, sharedServers(t, 3+round%2)) })
	}
}

// lawsOn runs the suite with engines opened by URL, and with peers on clients that all
// cases share.
func lawsOn(t *testing.T, on []*testserver.Server) {
	f := &cluster{servers: on, query: lawsMaxTTL}
	f.waitForAge(t)
	onClients := f.onClients(t)
	h := harness(func(t *testing.T, side int, prefix string) driver.Engine {
		if side == 1 {
			return onClients(t, side, prefix)
		}
		return open(t, addrs(f.servers), lawsMaxTTL+"&prefix="+prefix)
	})
	h.Stays = func(stack string) bool {
		return strings.Contains(stack, "github.com/redis/rueidis.") && !strings.Contains(stack, "github.com/pawl-go/pawl")
	}
	drivertest.Run(t, h)
}

// onClients returns a function that opens engines on two clients of each server.
// Connections of its own for every engine would be most of a case's cost.
func (f *cluster) onClients(t *testing.T) func(t *testing.T, side int, prefix string) driver.Engine {
	t.Helper()
	var clients [2]map[string]redis.Client
	for side := range clients {
		clients[side] = f.clientsOf(t)
	}
	return func(t *testing.T, side int, prefix string) driver.Engine {
		e, err := redlock.New(clients[side], redlock.WithPrefix(prefix), redlock.WithMaxTTL(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// clientsOf returns a client of each server, by its address.
func (f *cluster) clientsOf(t *testing.T) map[string]redis.Client {
	t.Helper()
	clients := map[string]redis.Client{}
	for _, s := range f.servers {
		c, err := redis.NewClient(small(s.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients[s.Addr()] = c
	}
	return clients
}
