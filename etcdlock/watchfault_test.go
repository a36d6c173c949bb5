package etcdlock

import (
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A server stops sending events, while its connection stands.
func TestASilentStreamIsReplaced(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var m silencedStreams
	other, e := engine(t, addr), engine(t, addr, m.option())
	a, b := open(t, other, longTTL), open(t, e, time.Minute)
	ca, cb, cc := mutex("name"), mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	awaitOwnWatch(t, b, cb)
	m.silence()
	leave(t, a, ca)
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: 100 * time.Millisecond})
	})
	if st, err := got.within(t, 4*soon, "the turn of a waiter that was not notified"); err != nil || !st.Held {
		t.Fatalf("Await: %+v, %v", st, err)
	}
	// The next waiter is notified again.
	wait(t, b, cc)
	notified := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cc, driver.Standing{Pause: time.Minute}) })
	leave(t, b, cb)
	if st, err := notified.within(t, soon, "the turn of the next"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A server forgets to send an event. A waiter without events reads the line after a while.
func TestATurnThatTheServerDoesNotReportIsFound(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var forget atomic.Bool
	other, e := engine(t, addr), engine(t, addr, onMessage(func(_ string, m any) {
		if r, ok := m.(*pb.WatchResponse); ok && forget.Load() {
			r.Events = nil
		}
	}))
	a, b := open(t, other, longTTL), open(t, e, longTTL)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	awaitOwnWatch(t, b, cb)
	rewind := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.claims[cb.ID].wait.checkedAt = time.Now().Add(-recheckAfter)
	}
	rewind()
	awaitNoChange(t, b, cb, time.Millisecond) // the blocker is in line
	forget.Store(true)
	leave(t, a, ca)
	rewind()
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: time.Millisecond})
	})
	if st, err := got.within(t, soon, "the turn of a waiter that is never notified"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A cluster is restored to a state in which all claims are in line. The watch resumes from
// a revision that is still to come, and would report nothing before.
func TestAWaiterNoticesARestoredBackup(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	wait(t, b, cb)
	restore := backup(t, server)
	for i := range 50 {
		if _, err := clientOf(e).Put(t.Context(), "other", string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
	}
	awaitOwnWatch(t, b, cb)
	restore()
	listening(t, server)
	leave(t, a, ca)
	got := begin(t, func() (driver.Standing, error) {
		return until(t.Context(), b, cb, driver.Standing{Pause: 200 * time.Millisecond})
	})
	if st, err := got.within(t, 2*soon, "the turn after a restored backup"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// An address leads to another cluster with higher revisions. Neither its events nor their
// absence say anything about the line in which the claim waits.
func TestAWaiterNoticesAnotherCluster(t *testing.T) {
	t.Parallel()
	one, other := testserver.Etcd(t), sharedEtcd(t)
	p := faultproxy.New(t, one.Addr())
	e, direct := engine(t, []string{p.Addr()}), engine(t, []string{other.Addr()})
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	hold(t, a, mutex("name"))
	cb := mutex("name")
	wait(t, b, cb)
	awaitOwnWatch(t, b, cb)
	b.mu.Lock()
	watched := b.claims[cb.ID].wait.blockers.Revision
	b.mu.Unlock()
	for now := int64(0); now <= watched; {
		put, err := clientOf(direct).Put(t.Context(), string(direct.keys)+"other", "")
		if err != nil {
			t.Fatal(err)
		}
		now = put.Header.Revision
	}
	p.Retarget(other.Addr())
	p.Reset()
	got := begin(t, func() (driver.Standing, error) {
		return untilReachable(t.Context(), b, cb, driver.Standing{Pause: 200 * time.Millisecond})
	})
	if st, err := got.within(t, 4*soon, "notifying a waiter that its cluster does not know it"); err != nil || !st.Gone {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A connection breaks while a claim waits, and the revision from which the watch would
// resume is compacted away (etcd#7815); the turn comes while there is no watch
// (python-etcd3#1107).
func TestAWaitSurvivesABrokenConnectionAndACompaction(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"the turn comes later": false, "the turn comes in between": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.Etcd(t)
			p := faultproxy.New(t, server.Addr())
			near, far := engine(t, []string{server.Addr()}), engine(t, []string{p.Addr()})
			a, b := open(t, near, longTTL), open(t, far, longTTL)
			ca, cb := mutex("name"), mutex("name")
			hold(t, a, ca)
			st := wait(t, b, cb)
			got := begin(t, func() (driver.Standing, error) { return untilReachable(t.Context(), b, cb, st) })
			listening(t, server)
			p.Refuse()
			p.Reset()
			for i := range 20 {
				if _, err := clientOf(near).Put(t.Context(), "other", string(rune('a'+i))); err != nil {
					t.Fatal(err)
				}
			}
			if seen {
				leave(t, a, ca)
			}
			compact(t, clientOf(near))
			p.Heal()
			if !seen {
				listening(t, server)
				leave(t, a, ca)
			}
			if st, err := got.within(t, 2*soon, "the turn"); err != nil || !st.Held {
				t.Errorf("Await: %+v, %v", st, err)
			}
		})
	}
}

// A connection breaks while a name is watched, a claim leaves, and the revision from which
// the watch would resume is compacted away: departures may have been missed, so it
// notifies.
func TestAWatchThatBrokeNotifiesOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	p := faultproxy.New(t, server.Addr())
	near, far := engine(t, []string{server.Addr()}), engine(t, []string{p.Addr()})
	s, c := open(t, near, longTTL), mutex("name")
	hold(t, s, c)
	notified, err := far.Watch(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	p.Reset()
	leave(t, s, c)
	compact(t, clientOf(near))
	p.Heal()
	select {
	case _, open := <-notified:
		if !open {
			t.Error("the watch has ended")
		}
	case <-time.After(4 * soon):
		t.Error("a departure was not notified")
	}
}
