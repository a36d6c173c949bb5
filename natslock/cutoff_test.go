package natslock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// TestAnIsolatedServerKeepsNoWaiterFromItsTurn runs with the leader and with another.
func TestAnIsolatedServerKeepsNoWaiterFromItsTurn(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	clusterClient(t, clusterTTL, c.Addrs()...) // it makes the bucket
	for of, name := range []string{"the leader", "another"} {
		t.Run(name, func(t *testing.T) { waiterMovesOn(t, c, network, of) })
	}
}

// Law 6: a waiter whose server is cut off, and so gets no notice, moves to another.
func waiterMovesOn(t *testing.T, c *testserver.NATSCluster, network *faultproxy.Network, of int) {
	const ttl = 3 * clusterTTL
	name := fmt.Sprint("name ", of)
	member := (c.Leader(testStream) + of) % 3
	e := newEngine(storeOn(t, c, member))
	waiter := answeredClient(t, ttl, e)
	held := mustLock(t, clusterClient(t, ttl, c.Addrs(c.Except(member)...)...), name)
	ctx, cancel := context.WithTimeout(t.Context(), 3*clusterTimeout)
	defer cancel()
	type result struct {
		l   *pawl.Lease
		err error
	}
	got := make(chan result, 1)
	go func() { // ends with ctx; received below
		l, err := waiter.Mutex(name).Lock(ctx)
		got <- result{l, err}
	}()
	for {
		line, err := e.Line(ctx, name)
		if err == nil && len(line) == 2 {
			break
		}
		select {
		case r := <-got:
			t.Fatalf("it does not wait: %v, %v; %v, %v", r.l, r.err, line, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	begun := time.Now()
	network.Isolate(member)
	defer c.Await()
	defer network.Heal()
	if err := held.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // then it is left later
		t.Error(err)
	}
	if r := <-got; r.err != nil {
		t.Errorf("Lock of a waiter on an isolated server: %v", r.err)
	} else if r.l.Token() <= held.Token() {
		t.Errorf("token %d after %d", r.l.Token(), held.Token())
	}
	t.Logf("it held %v after its server was cut off", time.Since(begun))
}
