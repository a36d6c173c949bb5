package etcdlock

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// settled calls Await of c, which nobody wakes, until it also listens to its own key. The
// rounds are long: until then each ends with a question to the store, and those of many
// claims would keep a slow machine from anything else.
func settled(t testing.TB, s *session, c driver.Claim) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 12*soon; {
		rests(t, s, c, time.Second)
		s.mu.Lock()
		quiet := s.spots[c.ID].vigil.known
		s.mu.Unlock()
		if quiet {
			return
		}
	}
	t.Fatal("a claim that waits does not listen to its own key")
}

// rests calls Await of a claim that nobody wakes.
func rests(t testing.TB, s *session, c driver.Claim, pause time.Duration) {
	t.Helper()
	if st, err := s.Await(t.Context(), c, driver.Standing{Pause: pause}); err != nil || st.Held || st.Gone {
		t.Errorf("Await: %+v, %v; nothing has happened", st, err)
	}
}

// undisturbed calls f, which takes about as long as it says, until it was not held up
// by a machine that stands still, and returns how long that took.
func undisturbed(t testing.TB, about time.Duration, f func()) time.Duration {
	t.Helper()
	for range 5 {
		begun := time.Now()
		f()
		if took := time.Since(begun); took < about+time.Second {
			return took
		}
	}
	t.Fatal("the machine stood still again and again")
	return 0
}

// Who waits, and is not woken, sends nothing: not when Await comes back, and not when
// it is called again. Its stream is asked now and then whether it would tell, and the
// store who holds the name, the less often the longer one waits.
func TestAWaitThatNobodyWakesSendsNothing(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var n count
	other, e := engine(t, addr), engine(t, addr, n.options()...)
	a, b := open(t, other, unbeaten), open(t, e, unbeaten)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	settled(t, b, cb)
	var calls map[string]int
	took := undisturbed(t, 2*time.Second, func() {
		n.take()
		for range 20 {
			rests(t, b, cb, 100*time.Millisecond)
		}
		calls, _ = n.take()
	})
	probes := int(took/fresh) + 1
	const told = 2 // a watch begins, and ends
	if calls["Watch"] > told*(probes+1) || calls["Range"] > 3 || len(calls) > 2 {
		t.Errorf("waiting for %v costs %v, not %d probes and three looks at who holds it", took, calls, probes)
	}
	leave(t, a, ca)
	if st, err := until(t.Context(), b, cb, driver.Standing{}); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// What a line costs a client does not grow with how many of its claims wait in it.
func TestManyWhoWaitInOneLineAskOnce(t *testing.T) {
	t.Parallel()
	server := common(t)
	p := faultproxy.New(t, server.Addr())
	a, b := open(t, engine(t, []string{server.Addr()}), unbeaten), open(t, engine(t, []string{p.Addr()}), unbeaten)
	hold(t, a, mutex("name"))
	const waiters, rounds = 200, 5
	cs := make([]driver.Claim, waiters)
	var wg sync.WaitGroup
	for i := range cs {
		cs[i] = mutex("name")
		wait(t, b, cs[i])
		wg.Go(func() { settled(t, b, cs[i]) })
	}
	wg.Wait()
	var bytes atomic.Int64
	p.OnChunk(func(k faultproxy.Chunk) {
		if k.Stage == faultproxy.Forwarded {
			bytes.Add(int64(len(k.Data)))
		}
	})
	took := undisturbed(t, rounds*200*time.Millisecond, func() {
		bytes.Store(0)
		for range rounds {
			for _, c := range cs {
				wg.Go(func() { rests(t, b, c, 200*time.Millisecond) })
			}
			wg.Wait()
		}
	})
	t.Logf("%d claims wait for %v: %d bytes", waiters, took, bytes.Load())
	if bytes.Load() > 10_000 {
		t.Errorf("%d claims that wait for %v cost %d bytes", waiters, took, bytes.Load())
	}
}

// The turn comes while no Await is under way, or in the moment in which one is called
// off: the next one must know.
func TestATurnBetweenTwoAwaitsIsSeen(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
	for i := range 40 {
		ca, cb := mutex("name"), mutex("name")
		hold(t, a, ca)
		wait(t, b, cb)
		rests(t, b, cb, time.Millisecond)
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
			time.Sleep(time.Duration(i) * 20 * time.Microsecond) // somewhere between the notice and the look after it
		}
		cancel()
		if _, err := called.within(t, soon, "an Await that was called off"); err != nil {
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

// A server tells of nothing any more, and its connection stands.
func TestAStreamThatFallsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var m muted
	other, e := engine(t, addr), engine(t, addr, m.option())
	a, b := open(t, other, unbeaten), open(t, e, time.Minute)
	ca, cb, cc := mutex("name"), mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	settled(t, b, cb)
	m.silence()
	leave(t, a, ca)
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: 100 * time.Millisecond})
	})
	if st, err := got.within(t, 4*soon, "the turn of one who was not told"); err != nil || !st.Held {
		t.Fatalf("Await: %+v, %v", st, err)
	}
	// The next is told again.
	wait(t, b, cc)
	told := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cc, driver.Standing{Pause: time.Minute}) })
	leave(t, b, cb)
	if st, err := told.within(t, soon, "the turn of the next"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A server forgets to tell. What is not told for long is looked for.
func TestANoticeThatNeverComesIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var forget atomic.Bool
	other, e := engine(t, addr), engine(t, addr, heard(func(_ string, m any) {
		if r, ok := m.(*pb.WatchResponse); ok && forget.Load() {
			r.Events = nil
		}
	}))
	a, b := open(t, other, unbeaten), open(t, e, unbeaten)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	settled(t, b, cb)
	rewind := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spots[cb.ID].vigil.seen = time.Now().Add(-recheck)
	}
	rewind()
	rests(t, b, cb, time.Millisecond) // it is there
	forget.Store(true)
	leave(t, a, ca)
	rewind()
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: time.Millisecond})
	})
	if st, err := got.within(t, soon, "the turn of one who was never told"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A cluster is put back to a state in which all are in line. The watch goes on from a
// revision that is yet to come, and would tell of nothing before.
func TestAWaiterIsNotFooledByARestoredBackup(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	data := filepath.Join(server.Dir(), "data")
	server.Stop()
	if err := os.CopyFS(data+".old", os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	for i := range 50 {
		if _, err := e.client.Put(t.Context(), "other", string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, b, cb)
	server.Stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(data+".old", data); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	listening(t, server)
	leave(t, a, ca)
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: 200 * time.Millisecond})
	})
	if st, err := got.within(t, 2*soon, "the turn after a restored backup"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// An address leads to another cluster, which has counted further. What it tells of, and
// that it tells of nothing, has nothing to do with the line in which one waits.
func TestAWaiterIsNotFooledByAnotherCluster(t *testing.T) {
	t.Parallel()
	one, other := testserver.Etcd(t), common(t)
	p := faultproxy.New(t, one.Addr())
	e, direct := engine(t, []string{p.Addr()}), engine(t, []string{other.Addr()})
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
	hold(t, a, mutex("name"))
	cb := mutex("name")
	wait(t, b, cb)
	settled(t, b, cb)
	b.mu.Lock()
	heard := b.spots[cb.ID].vigil.turn.since
	b.mu.Unlock()
	for now := int64(0); now <= heard; {
		put, err := direct.client.Put(t.Context(), string(direct.space)+"other", "")
		if err != nil {
			t.Fatal(err)
		}
		now = put.Header.Revision
	}
	p.Retarget(other.Addr())
	p.Reset()
	got := begin(t, func() (driver.Standing, error) {
		for {
			st, err := b.Await(t.Context(), cb, driver.Standing{Pause: 200 * time.Millisecond})
			if !errors.Is(err, driver.ErrUnreachable) && (err != nil || st.Held || st.Gone) {
				return st, err
			}
		}
	})
	if st, err := got.within(t, 4*soon, "telling a waiter that its cluster knows nothing of it"); err != nil || !st.Gone {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// The holder is told to all who wait in a line, from one question, and is not the one
// of long ago.
func TestWhoWaitsIsToldWhoHolds(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
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
				t.Fatalf("Await: %+v, %v; who holds it is not told", st, err)
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
			t.Fatalf("held by %q, who left %v ago", got, time.Since(begun))
		}
	}
}
