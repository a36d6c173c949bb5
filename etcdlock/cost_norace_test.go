//go:build !race

package etcdlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// ours returns one lock and unlock by package pawl.
func ours(t testing.TB, client *clientv3.Client, name string) func(context.Context) error {
	c := pawl.New(New(client))
	t.Cleanup(func() { c.Close() })
	return locking(c.Mutex(name))
}

func locking(m *pawl.Mutex) func(context.Context) error {
	return func(ctx context.Context) error {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Unlock()
	}
}

// stock returns one lock and unlock by the mutex that comes with etcd's client.
func stock(t testing.TB, client *clientv3.Client, name string) func(context.Context) error {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m := concurrency.NewMutex(s, "stock/"+name)
	return func(ctx context.Context) error {
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(context.WithoutCancel(ctx))
	}
}

// bare returns one put and one delete of a key.
func bare(client *clientv3.Client, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := client.Put(ctx, "bare/"+name, "x"); err != nil {
			return err
		}
		_, err := client.Delete(ctx, "bare/"+name)
		return err
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

// ratio has a and b take turns, call by call, so that whatever else the machine does
// falls on both alike, and compares their medians: 2 says that a is twice as fast.
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

func TestNoRaceAFreeNameCostsAsMuchAsItsTwoWrites(t *testing.T) {
	client := dial(t, []string{testserver.NewEtcd(t).Addr()})
	pawl := ours(t, client, "free")
	beside := ratio(t, 2000, pawl, stock(t, client, "free"))
	above := ratio(t, 2000, pawl, bare(client, "free"))
	t.Logf("%.2f times as fast as concurrency.Mutex, %.2f times as fast as a put and a delete", beside, above)
	if beside < 0.95 {
		t.Errorf("%.2f of concurrency.Mutex, at least 0.95", beside)
	}
	if above < 0.75 {
		t.Errorf("%.2f of a put and a delete, at least 0.75", above)
	}
}

// crowd has each call run as often as it can for d, and returns the sum.
func crowd(t *testing.T, d time.Duration, calls []func(context.Context) error) (total int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	each := make([]int, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				each[i]++
			}
		})
	}
	wg.Wait()
	for _, n := range each {
		total += n
	}
	return total
}

func TestNoRaceSixteenClientsHandOverFourTimesAsFastAsTheStockMutex(t *testing.T) {
	const n, turns, d = 16, 7, time.Second
	addr := []string{testserver.NewEtcd(t).Addr()}
	var mine, theirs []func(context.Context) error
	for range n {
		mine = append(mine, ours(t, dial(t, addr), "crowd"))
		theirs = append(theirs, stock(t, dial(t, addr), "crowd"))
	}
	var ratios []float64
	var a, b int
	for range turns { // so that whatever else the machine does falls on both alike
		x, y := crowd(t, d, mine), crowd(t, d, theirs)
		ratios = append(ratios, float64(x)/float64(max(1, y)))
		a, b = a+x, b+y
	}
	slices.Sort(ratios)
	whole, ratio := turns*d.Seconds(), ratios[turns/2]
	t.Logf("%d clients on one name: %.0f holds/s, concurrency.Mutex %.0f holds/s: %.1f times", n, float64(a)/whole, float64(b)/whole, ratio)
	if ratio < 4 {
		t.Errorf("%.1f times, at least 4", ratio)
	}
}

func TestNoRaceTheGateIsFiftyTimesAsFastAsTheStockMutex(t *testing.T) {
	const n, d = 64, 5 * time.Second
	addr := []string{testserver.NewEtcd(t).Addr()}
	client := dial(t, addr)
	c := pawl.New(New(client))
	defer c.Close()
	var mine, theirs []func(context.Context) error
	for range n {
		mine = append(mine, locking(c.Mutex("gate")))
		theirs = append(theirs, stock(t, client, "gate"))
	}
	b := crowd(t, d, theirs)
	a := crowd(t, d, mine)
	t.Logf("%d goroutines of one process: %.0f holds/s, concurrency.Mutex %.0f holds/s: %.0f times",
		n, float64(a)/d.Seconds(), float64(b)/d.Seconds(), float64(a)/float64(b))
	if a < 50*b {
		t.Errorf("%.1f times, at least 50", float64(a)/float64(b))
	}
}

// TestNoRaceFiftyThousandPastClaimsDoNotSlowTheNext compares a name with a past with
// one that has none. Claims that each had a key of their own would slow every range
// over them until the next compaction.
func TestNoRaceFiftyThousandPastClaimsDoNotSlowTheNext(t *testing.T) {
	const past, lanes = 50_000, 64
	client := dial(t, []string{testserver.NewEtcd(t).Addr()})
	e := New(client)
	defer e.Close()
	c := pawl.New(e)
	defer c.Close()
	s := open(t, e, time.Minute)
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

func TestNoRaceTenThousandHeldNamesCostOneKeepalive(t *testing.T) {
	const held, lanes = 10_000, 64
	var n count
	e := engine(t, []string{testserver.NewEtcd(t).Addr()}, n.options()...)
	s := open(t, e, time.Minute)
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
		if calls["LeaseKeepAlive"] != 1 || calls["LeaseTimeToLive"] != 1 || len(calls) != 2 {
			t.Errorf("a beat costs %v, not one keepalive and one question", calls)
		}
	}
}
