// Package soaktest has clients take mutexes, read locks and permits while it brings
// faults to the cluster that keeps them, and checks what they hold.
package soaktest

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// TTL is that of all locks.
const TTL = 5 * time.Second

// recovery bounds the time after the last fault until every client holds again.
const recovery = 2 * time.Minute

// Length returns for how long a soak test runs, as PAWL_SOAK says, and skips the test if
// it is not set.
func Length(t testing.TB) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	return d
}

// Run brings faults to a cluster for a time d, and then expects every client to hold
// again. client opens a client with locks of TTL that reaches the members at the given
// addresses.
func Run(t testing.TB, d time.Duration, c Cluster, client func(addrs []string) *pawl.Client) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var addrs []string
	f := faults{Cluster: c, rnd: rand.New(rand.NewPCG(seed, 101)), a: newAudit(t)}
	for _, m := range c.Members {
		link := faultproxy.New(t, m.Addr())
		f.links, addrs = append(f.links, link), append(addrs, link.Addr())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	var clients []*pawl.Client
	for i := range 6 {
		one := client(addrs)
		clients = append(clients, one)
		for j := range 4 {
			rnd := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
			work.Go(func() { f.a.contend(ctx, one, rnd) })
		}
	}
	admin := client(addrs).Engine()
	work.Go(func() { f.a.evict(ctx, admin, rand.New(rand.NewPCG(seed, 100))) })
	f.strikeFor(d)
	repaired := time.Now()
	f.a.expectHolds(clients, recovery)
	t.Logf("all clients hold again %v after the last fault", time.Since(repaired).Round(time.Millisecond))
	cancel()
	work.Wait()
	for _, one := range clients {
		if err := one.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	f.a.report(admin)
}
