package natslock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/soaktest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// distant returns the address of a server that is a round trip away.
func distant(t *testing.T, trip time.Duration) string {
	t.Helper()
	proxy := faultproxy.New(t, testserver.NATS(t).Addr())
	proxy.Delay(faultproxy.ToServer, trip/2)
	proxy.Delay(faultproxy.ToClient, trip/2)
	return proxy.Addr()
}

// crowd lets clients, each with a connection of its own, lock one name again and again for a
// time d, and returns how often they held it. Nobody loses it, and no two hold it.
func crowd(t *testing.T, addr string, clients int, d time.Duration) (holds int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var held, inside, lost, failed atomic.Int64
	var all sync.WaitGroup
	for range clients {
		c := pawl.New(New(connect(t, addr)))
		all.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				l, err := c.Mutex("name").Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Lock: %v", err)
						failed.Add(1)
					}
					continue
				}
				if inside.Add(1) > 1 {
					t.Error("two hold the name")
				}
				held.Add(1)
				if l.Err() != nil {
					lost.Add(1)
				}
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if lost.Load()+failed.Load() > 0 {
		t.Errorf("%d of %d holds were lost, %d calls failed", lost.Load(), held.Load(), failed.Load())
	}
	return held.Load()
}

// TestSoakACrowdOfDistantClients runs for as long as PAWL_SOAK says.
func TestSoakACrowdOfDistantClients(t *testing.T) {
	const trip = 40 * time.Millisecond
	d := soaktest.Length(t)
	holds := crowd(t, distant(t, trip), 200, d)
	t.Logf("200 clients at %v: %d holds in %v, %.2f in a round trip", trip, holds, d, float64(holds)*float64(trip)/float64(d))
}

// TestSoakAHolderWithADistantCrowd runs for as long as PAWL_SOAK says.
func TestSoakAHolderWithADistantCrowd(t *testing.T) {
	const clients, trip = 200, 40 * time.Millisecond
	d := soaktest.Length(t)
	addr := distant(t, trip)
	var waiting []*pawl.Client
	for range clients {
		waiting = append(waiting, pawl.New(New(connect(t, addr))))
	}
	c := pawl.New(New(connect(t, addr)))
	defer c.Close()
	held, err := c.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range waiting {
		all.Go(func() {
			defer c.Close()
			if _, err := c.Mutex("name").Lock(ctx); err == nil {
				t.Error("it is granted beside the holder")
			}
		})
	}
	select {
	case <-held.Context().Done():
		t.Errorf("the hold is lost: %v", context.Cause(held.Context()))
		cancel()
	case <-ctx.Done():
	}
	line, err := c.Line(t.Context(), "name")
	t.Logf("%d are in line with %d waiting clients at %v, %v", len(line), clients, trip, err)
	all.Wait()
}

// TestSoakRivals runs for as long as PAWL_SOAK says.
func TestSoakRivals(t *testing.T) {
	d := soaktest.Length(t)
	holds := crowd(t, testserver.NATS(t).Addr(), 100, d)
	t.Logf("100 clients: %d holds in %v, %.0f in a second", holds, d, float64(holds)/d.Seconds())
}

// TestSoakTenThousandHolds runs for as long as PAWL_SOAK says.
func TestSoakTenThousandHolds(t *testing.T) {
	const number, trip = 10_000, 50 * time.Millisecond
	d := soaktest.Length(t)
	js := connect(t, distant(t, trip))
	c := pawl.New(New(js), pawl.WithTTL(10*time.Second))
	defer c.Close()
	leases := make([]*pawl.Lease, number)
	var taking sync.WaitGroup
	for part := range 200 {
		taking.Go(func() {
			for i := part; i < number; i += 200 {
				l, err := c.Mutex(fmt.Sprint("name", i)).Lock(t.Context())
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				leases[i] = l
			}
		})
	}
	taking.Wait()
	if t.Failed() {
		return
	}
	before := js.Conn().Stats().OutMsgs
	time.Sleep(d)
	sent, lost := js.Conn().Stats().OutMsgs-before, 0
	for _, l := range leases {
		if l.Err() != nil {
			lost++
		}
	}
	t.Logf("%d of %d holds are lost after %v, with %.0f messages in a second", lost, number, d, float64(sent)/d.Seconds())
	if lost > 0 {
		t.Error("a hold was lost without a fault")
	}
}
