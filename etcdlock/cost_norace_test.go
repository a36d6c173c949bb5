//go:build !race

package etcdlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/testserver"
)

// locking returns one lock and unlock.
func locking(m *pawl.Mutex) func(context.Context) error {
	return func(ctx context.Context) error {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Unlock()
	}
}

// timed returns how long n calls took.
func timed(t testing.TB, n int, call func(context.Context) error) time.Duration {
	t.Helper()
	start := time.Now()
	for range n {
		if err := call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start)
}

// ratio calls a and b in turn, so that other load of the machine affects both alike, and
// compares their medians: 2 says that a is twice as fast.
func ratio(t testing.TB, calls int, a, b func(context.Context) error) float64 {
	t.Helper()
	timed(t, 20, a)
	timed(t, 20, b)
	var as, bs []time.Duration
	for range calls {
		as, bs = append(as, timed(t, 1, a)), append(bs, timed(t, 1, b))
	}
	slices.Sort(as)
	slices.Sort(bs)
	t.Logf("medians: %v and %v", as[calls/2], bs[calls/2])
	return float64(bs[calls/2]) / float64(as[calls/2])
}

// TestNoRaceTenThousandPastClaimsDoNotSlowTheNext compares a used name with an unused one.
// If every claim had a key of its own, all ranges over them would be slower until the
// next compaction.
func TestNoRaceTenThousandPastClaimsDoNotSlowTheNext(t *testing.T) {
	const past, lanes = 10_000, 64
	client := dial(t, []string{testserver.NewEtcd(t).Addr()})
	e := New(client)
	defer e.Close()
	c := pawl.New(e)
	defer c.Close()
	s := open(t, e, longTTL)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for range past / lanes {
				c := mutex("past")
				_, err := s.Enter(t.Context(), c)
				if err == nil {
					err = s.Leave(t.Context(), c)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	start := time.Now()
	wg.Wait()
	t.Logf("%d claims in %v", past, time.Since(start).Round(time.Millisecond))
	if slower := 1 / ratio(t, 500, locking(c.Mutex("past")), locking(c.Mutex("fresh"))); slower > 1.2 {
		t.Errorf("a name with %d past claims costs %.2f times as much as a new one, at most 1.2", past, slower)
	}
}

func TestNoRaceThreeThousandHeldNamesCostOneKeepalive(t *testing.T) {
	const held, lanes = 3_000, 64
	var n count
	e := engine(t, []string{testserver.NewEtcd(t).Addr()}, n.options()...)
	s := open(t, e, longTTL)
	live := make([]driver.Claim, held)
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for i := lane; i < held; i += lanes {
				live[i] = mutex(fmt.Sprintf("jobs/%05d", i))
				if st, err := s.Enter(t.Context(), live[i]); err != nil || !st.Held {
					t.Errorf("Enter: %+v, %v", st, err)
					return
				}
			}
		})
	}
	wg.Wait()
	n.take()
	out := make([]driver.Standing, held)
	for range 3 {
		start := time.Now()
		if err := s.Beat(t.Context(), live, out); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		for _, st := range out {
			if st.Gone || !st.Held || st.Valid != s.TTL() {
				t.Fatalf("%+v", st)
			}
		}
		calls, largest := n.take()
		t.Logf("a beat for %d claims: %v, %v, the largest reply %d kB", held, calls, took.Round(time.Millisecond), largest>>10)
		if questions := (held + etcdstore.MaxOps - 1) / etcdstore.MaxOps; calls["LeaseKeepAlive"] != 1 || calls["Txn"] != questions || len(calls) != 2 {
			t.Errorf("a beat costs %v, not one keepalive and %d questions", calls, questions)
		}
		if largest > 1<<10 {
			t.Errorf("a reply to a beat has %d bytes, though no claim is missing", largest)
		}
	}
}
