package etcdlock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// awaitOwnWatch calls Await of c, whose turn does not come, until its own key is watched
// too. The rounds are long: until then each ends with a read, and the reads of many
// claims would keep a slow machine busy.
func awaitOwnWatch(t testing.TB, s *session, c driver.Claim) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 12*soon; {
		awaitNoChange(t, s, c, time.Second)
		s.mu.Lock()
		watched := s.claims[c.ID].wait.ownChecked
		s.mu.Unlock()
		if watched {
			return
		}
	}
	t.Fatal("a claim that waits does not watch its own key")
}

// awaitNoChange calls Await of a claim whose turn does not come.
func awaitNoChange(t testing.TB, s *session, c driver.Claim, pause time.Duration) {
	t.Helper()
	if st, err := s.Await(t.Context(), c, driver.Standing{Pause: pause}); err != nil || st.Held || st.Gone {
		t.Errorf("Await: %+v, %v; nothing has happened", st, err)
	}
}

// withoutStall repeats f until it took no longer than a machine without stalls needs, and
// returns how long that was.
func withoutStall(t testing.TB, about time.Duration, f func()) time.Duration {
	t.Helper()
	for range 5 {
		begun := time.Now()
		f()
		if took := time.Since(begun); took < about+time.Second {
			return took
		}
	}
	t.Fatal("the machine stalled again and again")
	return 0
}

// A waiter whose turn does not come sends nothing, neither when Await returns nor when it
// is called again. From time to time its stream is verified and the store is asked for
// the holder, less often the longer the wait.
func TestAnIdleWaitSendsNothing(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var n count
	other, e := engine(t, addr), engine(t, addr, n.options()...)
	a, b := open(t, other, longTTL), open(t, e, longTTL)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	awaitOwnWatch(t, b, cb)
	var calls map[string]int
	took := withoutStall(t, 2*time.Second, func() {
		n.take()
		for range 20 {
			awaitNoChange(t, b, cb, 100*time.Millisecond)
		}
		calls, _ = n.take()
	})
	probes := int(took/etcdstore.VerifiedFor) + 1
	const perProbe = 2 // a watch starts, and ends
	if calls["Watch"] > perProbe*(probes+1) || calls["Range"] > 3 || len(calls) > 2 {
		t.Errorf("waiting for %v costs %v, not %d probes and three reads of the holder", took, calls, probes)
	}
	leave(t, a, ca)
	if st, err := until(t.Context(), b, cb, driver.Standing{}); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// The cost of waiting does not grow with the number of a client's claims in the line.
func TestWaitersInOneLineShareTheirQuestions(t *testing.T) {
	t.Parallel()
	server := sharedEtcd(t)
	p := faultproxy.New(t, server.Addr())
	a, b := open(t, engine(t, []string{server.Addr()}), longTTL), open(t, engine(t, []string{p.Addr()}), longTTL)
	hold(t, a, mutex("name"))
	const waiters, rounds = 200, 5
	cs := make([]driver.Claim, waiters)
	var wg sync.WaitGroup
	for i := range cs {
		cs[i] = mutex("name")
		wait(t, b, cs[i])
		wg.Go(func() { awaitOwnWatch(t, b, cs[i]) })
	}
	wg.Wait()
	var bytes atomic.Int64
	p.OnChunk(func(k faultproxy.Chunk) {
		if k.Stage == faultproxy.Forwarded {
			bytes.Add(int64(len(k.Data)))
		}
	})
	took := withoutStall(t, rounds*200*time.Millisecond, func() {
		bytes.Store(0)
		for range rounds {
			for _, c := range cs {
				wg.Go(func() { awaitNoChange(t, b, c, 200*time.Millisecond) })
			}
			wg.Wait()
		}
	})
	t.Logf("%d claims wait for %v: %d bytes", waiters, took, bytes.Load())
	if bytes.Load() > 10_000 {
		t.Errorf("%d claims that wait for %v cost %d bytes", waiters, took, bytes.Load())
	}
}

// The turn comes while no Await is running, or at the moment in which one is cancelled:
// the next one must see it.
func TestATurnBetweenTwoAwaitsIsSeen(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	for i := range 40 {
		ca, cb := mutex("name"), mutex("name")
		hold(t, a, ca)
		wait(t, b, cb)
		awaitNoChange(t, b, cb, time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		called := begin(t, func() (driver.Standing, error) { return b.Await(ctx, cb, driver.Standing{Pause: time.Minute}) })
		left := begin(t, func() (any, error) {
			if i%2 == 0 {
				<-called.done
			}
			return nil, a.Leave(t.Context(), ca)
		})
		if i%2 != 0 {
			<-left.done
			time.Sleep(time.Duration(i) * 20 * time.Microsecond) // somewhere between the notification and the read after it
		}
		cancel()
		if _, err := called.within(t, soon, "an Await that was cancelled"); err != nil {
			expect(t, "Await", err, context.Canceled)
		}
		if _, err := left.within(t, soon, "Leave"); err != nil {
			t.Fatal(err)
		}
		next := begin(t, func() (driver.Standing, error) { return b.Await(t.Context(), cb, driver.Standing{Pause: time.Minute}) })
		if st, err := next.within(t, soon, "the next Await"); err != nil || !st.Held {
			t.Fatalf("Await: %+v, %v", st, err)
		}
		leave(t, b, cb)
	}
}

// All waiters in a line learn the holder from one question, and not an outdated one.
func TestWaitersLearnWhoHolds(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	first, second := mutex("name"), mutex("name")
	first.Note, second.Note = "the first", "the second"
	hold(t, a, first)
	wait(t, a, second)
	cs := []driver.Claim{mutex("name"), mutex("name"), mutex("name")}
	for _, c := range cs {
		wait(t, b, c)
	}
	notes := func() map[string]int {
		got := map[string]int{}
		for _, c := range cs {
			st, err := b.Await(t.Context(), c, driver.Standing{Pause: time.Millisecond})
			if err != nil || st.Holder == nil {
				t.Fatalf("Await: %+v, %v; the holder is not shown", st, err)
			}
			got[st.Holder.Note]++
		}
		return got
	}
	if got := notes(); !maps.Equal(got, map[string]int{first.Note: 3}) {
		t.Errorf("held by %v", got)
	}
	leave(t, a, first)
	for begun := time.Now(); ; {
		if got := slices.Collect(maps.Keys(notes())); len(got) == 1 && got[0] == second.Note {
			break
		} else if time.Since(begun) > 4*soon {
			t.Fatalf("held by %q, which left %v ago", got, time.Since(begun))
		}
	}
}
