//go:build !race

package etcdlock

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
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

// TestNoRaceTheServerReadsNoLongLineForAnEnter compares what an Enter costs a server behind
// a long line with what it costs on a free name. A server carries out one transaction
// after the other, and keepalives wait for them: a thousand clients that enter at once
// must not make it read the line a thousand times there.
func TestNoRaceTheServerReadsNoLongLineForAnEnter(t *testing.T) {
	const length, lanes = 1000, 50
	addr := testserver.NewEtcd(t).Addr()
	s := open(t, engine(t, []string{addr}), longTTL)
	enterMany := func(n int, claim func(i int) driver.Claim) (spent float64) {
		before := cpuOf(t, addr)
		var wg sync.WaitGroup
		for lane := range lanes {
			wg.Go(func() {
				for i := lane; i < n; i += lanes {
					if _, err := s.Enter(t.Context(), claim(i)); err != nil {
						t.Errorf("Enter: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		return cpuOf(t, addr) - before
	}
	free := enterMany(length, func(i int) driver.Claim { return mutex(fmt.Sprintf("free/%d", i)) })
	for kind, size := range map[string][2]int{"mutex": {1, 1}, "reader": {1, driver.All}, "semaphore": {1, 4}} {
		claim := func(int) driver.Claim {
			return driver.Claim{ID: newID(), Try: 1, Name: kind, Need: size[0], Limit: size[1], Queue: true}
		}
		enterMany(length, claim)
		behind := enterMany(length, claim)
		t.Logf("%d Enters: %.2f s of the server's processor on free names, %.2f s behind %d of a %s", length, free, behind, length, kind)
		if behind > 10*free {
			t.Errorf("an Enter behind %d claims of a %s costs the server %.1f times as much as on a free name, at most 10", length, kind, behind/free)
		}
	}
}

// TestNoRaceTheWaitersOfOneClientAreServedAtOnce counts in round trips. etcd's client starts
// the watches of one stream one after the other, a round trip each: those who wait must
// not all need another one when the first of them is served.
func TestNoRaceTheWaitersOfOneClientAreServedAtOnce(t *testing.T) {
	const waiters, counted, trip, most = 150, 10, 50 * time.Millisecond, 5
	p := faultproxy.New(t, testserver.NewEtcd(t).Addr())
	c := pawl.New(engine(t, []string{p.Addr()}), pawl.WithTTL(time.Minute))
	defer c.Close()
	m := c.Mutex("name", pawl.WithFair())
	p.Delay(faultproxy.ToServer, trip/2)
	p.Delay(faultproxy.ToClient, trip/2)
	held, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, waiters)
	for range waiters {
		go func() { served <- locking(m)(t.Context()) }() // each ends with its turn; received below
	}
	time.Sleep(waiters * trip * 3 / 2) // until all watch
	w := stalltest.Start()
	begun := time.Now()
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	for range counted {
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begun) - w.End()
	t.Logf("%d of %d waiters were served in %v", counted, waiters, took)
	if took > counted*most*trip {
		t.Errorf("%d of %d waiters were served in %v, at most %d round trips each", counted, waiters, took, most)
	}
	p.Heal()
	for range waiters - counted {
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
}

// cpuOf returns how many seconds of processor time a server has used.
func cpuOf(t testing.TB, addr string) (seconds float64) {
	t.Helper()
	reply, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	const metric = "\nprocess_cpu_seconds_total "
	_, after, found := strings.Cut(string(text), metric)
	if _, err := fmt.Sscan(after, &seconds); !found || err != nil {
		t.Fatalf("the server does not tell its processor time: %v", err)
	}
	return seconds
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
