package etcdlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The orders of events in which other lock libraries went wrong, each with the
// place where it was reported. What is not here is a law of drivertest.

const soon = 5 * time.Second

// etcd#19597, #11456: a waiter learnt only when those ahead had left that its own
// lease was gone, or was told that it holds.
func TestAWaiterWhoseLeaseIsRevokedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, time.Minute), open(t, e, time.Minute)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	st := wait(t, b, cb)
	told := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cb, st) })
	if _, err := e.client.Revoke(t.Context(), b.lease); err != nil {
		t.Fatal(err)
	}
	st, err := told.within(t, soon, "telling a waiter that its lease was revoked")
	if st.Held || !st.Gone && !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await: %+v, %v, not gone", st, err)
	}
	leave(t, a, ca)
	if st, err := b.Await(t.Context(), cb, driver.Standing{}); st.Held || !st.Gone {
		t.Errorf("Await with nobody ahead any more: %+v, %v, not gone", st, err)
	}
	if st, err := b.Enter(t.Context(), mutex("name")); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Enter under a revoked lease: %+v, %v, not ErrGone", st, err)
	}
}

// charts#326: a candidate became leader with no key left.
func TestAWaiterThatExpiredNeverHolds(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, time.Minute), open(t, e, time.Second)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	st := wait(t, b, cb)
	told := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cb, st) })
	st, err := told.within(t, 4*b.TTL()+soon, "the end of a waiter that is not beaten")
	leave(t, a, ca)
	if st.Held || err != nil || !st.Gone {
		t.Errorf("Await: %+v, %v, not gone", st, err)
	}
	if st := enter(t, a, tries(mutex("name"))); !st.Held {
		t.Errorf("the dead waiter is in the way: %+v", st)
	}
}

// A wait goes on in a new session when its own was ended behind its back.
func TestAWaitOutlivesItsLease(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	var leases granted
	a, b := client(t, addr, 10*time.Second), client(t, addr, 3*time.Second, leases.note())
	l := lock(t, a.Mutex("name"))
	got := begin(t, func() (*pawl.Lease, error) { return b.Mutex("name").Lock(t.Context()) })
	e := engine(t, addr)
	awaitLine(t, e, "name", 2)
	leases.mu.Lock()
	id := leases.ids[0]
	leases.mu.Unlock()
	if _, err := e.client.Revoke(t.Context(), clientv3.LeaseID(id)); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "name", 2)
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	lease, err := got.within(t, soon, "the turn of a waiter with a new lease")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Token() <= l.Token() {
		t.Errorf("token %d after %d", lease.Token(), l.Token())
	}
}

// awaitLine waits until so many stand in line.
func awaitLine(t testing.TB, e *Engine, name string, n int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		keys := keysOf(t, e, name)
		if len(keys) == n {
			return
		}
		if time.Since(start) > 4*soon {
			t.Fatalf("%d stand in line, not %d: %q", len(keys), n, keys)
		}
	}
}

// etcd#22123: a release with a context that had ended forgot what it was to release.
func TestALeaveWithAnEndedContextCanBeRepeated(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, time.Minute)
	c := mutex("name")
	hold(t, s, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, "Leave with an ended context", s.Leave(ctx, c), context.Canceled)
	if n := len(keysOf(t, e, "name")); n != 1 {
		t.Errorf("%d keys after a Leave that was not sent", n)
	}
	leave(t, s, c)
	if n := len(keysOf(t, e, "name")); n != 0 {
		t.Errorf("%d keys after Leave", n)
	}
}

// An unlock of etcd's own mutex says nothing when the lock was lost before.
func TestUnlockSaysThatTheLockWasLost(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	c, e := client(t, addr, time.Minute), engine(t, addr)
	l := lock(t, c.Mutex("name"))
	deleteLine(t, e, "name")
	expect(t, "Unlock of a lock whose key was deleted", l.Unlock(), pawl.ErrLost)
}

func deleteLine(t testing.TB, e *Engine, name string) {
	t.Helper()
	line := e.space.line(name)
	got, err := e.client.Delete(t.Context(), line.from, clientv3.WithRange(line.to))
	if err != nil || got.Deleted == 0 {
		t.Fatalf("%d keys deleted, %v", got.Deleted, err)
	}
}

// A keepalive does not tell that a key is gone, and some servers answer it even for
// a lease that was revoked (etcd#20616).
func TestWhatIsDeletedBehindOurBackIsNoticedByTheBeat(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	kind := heard(func(_ string, m any) {
		if r, ok := m.(*pb.LeaseKeepAliveResponse); ok {
			r.TTL = 60 // as a server with that fault says
		}
	})
	e, admin := engine(t, addr, kind), dial(t, addr)
	s := open(t, e, time.Minute)
	one, two := mutex("one"), mutex("two")
	hold(t, s, one)
	hold(t, s, two)
	out := make([]driver.Standing, 2)
	live := []driver.Claim{one, two}
	if err := s.Beat(t.Context(), live, out); err != nil || out[0].Gone || out[1].Gone || out[0].Valid != s.TTL() {
		t.Fatalf("Beat: %+v, %v", out, err)
	}
	deleteLine(t, e, "one")
	if err := s.Beat(t.Context(), live, out); err != nil || !out[0].Gone || out[1].Gone {
		t.Errorf("Beat after one key was deleted: %+v, %v", out, err)
	}
	if _, err := admin.Revoke(t.Context(), s.lease); err != nil {
		t.Fatal(err)
	}
	expect(t, "Beat after the lease was revoked", s.Beat(t.Context(), live[1:], out[1:]), driver.ErrGone)
}

// The first keepalive after a grant went to a member that had not heard of it, and
// ended a session that was alive (etcd#13932).
func TestAMemberThatDoesNotKnowTheLeaseYetDoesNotEndTheSession(t *testing.T) {
	t.Parallel()
	var fault atomic.Bool
	e := engine(t, []string{testserver.Etcd(t).Addr()}, heard(func(_ string, m any) {
		if r, ok := m.(*pb.LeaseKeepAliveResponse); ok && fault.Load() {
			r.TTL = 0
		}
	}))
	s := open(t, e, time.Minute)
	c := mutex("name")
	hold(t, s, c)
	out := make([]driver.Standing, 1)
	fault.Store(true)
	err := s.Beat(t.Context(), []driver.Claim{c}, out)
	if errors.Is(err, driver.ErrGone) || out[0].Gone || out[0].Valid != 0 {
		t.Errorf("Beat that a member denied: %+v, %v; the lease is alive and was not prolonged", out[0], err)
	}
	expect(t, "Beat that a member denied", err, driver.ErrUnreachable)
	fault.Store(false)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
		t.Errorf("Beat after it: %+v, %v", out[0], err)
	}
}

// etcd#22081, #22094: keepalives of several leases on one client were mixed up.
func TestSessionsOfOneClientDoNotShareTheirEnd(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	a, b := open(t, e, time.Minute), open(t, e, time.Minute)
	ca, cb := mutex("a"), mutex("b")
	hold(t, a, ca)
	hold(t, b, cb)
	out := make([]driver.Standing, 1)
	for range 3 {
		for s, c := range map[*session]driver.Claim{a: ca, b: cb} {
			if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
				t.Fatalf("Beat: %+v, %v", out, err)
			}
		}
	}
	if _, err := e.client.Revoke(t.Context(), a.lease); err != nil {
		t.Fatal(err)
	}
	expect(t, "Beat of a revoked lease", a.Beat(t.Context(), []driver.Claim{ca}, out), driver.ErrGone)
	if err := b.Beat(t.Context(), []driver.Claim{cb}, out); err != nil || out[0].Gone {
		t.Errorf("Beat of the other lease: %+v, %v", out, err)
	}
}

// etcd#10111: a wait that was cancelled in the moment of its grant returned
// neither an error nor a lock.
func TestACancelledWaitEitherHoldsOrHasLeft(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	a, b, c := client(t, addr, time.Minute), client(t, addr, time.Minute), client(t, addr, time.Minute)
	for range 30 {
		l := lock(t, a.Mutex("name"))
		ctx, cancel := context.WithCancel(t.Context())
		got := begin(t, func() (*pawl.Lease, error) { return b.Mutex("name").Lock(ctx) })
		left := begin(t, func() (any, error) { return nil, l.Unlock() })
		cancel()
		lease, err := got.within(t, soon, "a cancelled wait")
		if _, err := left.within(t, soon, "Unlock"); err != nil {
			t.Fatal(err)
		}
		if (lease == nil) == (err == nil) {
			t.Fatalf("lease %v, error %v", lease, err)
		}
		if lease != nil {
			if err := lease.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		third := begin(t, func() (*pawl.Lease, error) { return c.Mutex("name").Lock(t.Context()) })
		next, err := third.within(t, soon, "locking after it")
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// etcd PR#11364, #16396: two mutexes of one session both held.
func TestClaimsOfOneSessionExcludeEachOther(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, time.Minute)
	one, two := mutex("name"), mutex("name")
	hold(t, s, one)
	st := wait(t, s, two)
	if st.Token != 0 { // etcd#12017: a waiter was taken for the owner
		t.Errorf("a waiter has token %d", st.Token)
	}
	if st := enter(t, s, tries(mutex("name"))); st.Held {
		t.Error("a third of the same session holds")
	}
	leave(t, s, one)
	if st, err := until(t.Context(), s, two, st); err != nil || !st.Held || st.Token == 0 {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// etcd's own TryLock enters the line and leaves it: meanwhile it is in the way.
func TestABusyTryWritesNothing(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, time.Minute)
	revision := func() int64 {
		got, err := e.client.Get(t.Context(), "x", clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return got.Header.Revision
	}
	reader := mutex("shared")
	reader.Limit = driver.All
	unit := mutex("counted")
	unit.Need, unit.Limit = 3, 4
	hold(t, s, mutex("name"))
	hold(t, s, reader)
	hold(t, s, unit)
	before := revision()
	for _, c := range []driver.Claim{mutex("name"), mutex("shared"), mutex("counted")} {
		if st := enter(t, s, tries(c)); st.Held || st.Holder == nil || st.Holder.Note != "a test" {
			t.Errorf("a try of %q: %+v", c.Name, st)
		}
	}
	more := mutex("counted")
	more.Need, more.Limit = 2, 4
	if st := enter(t, s, tries(more)); st.Held {
		t.Errorf("3 and 2 of 4 are held: %+v", st)
	}
	if after := revision(); after != before {
		t.Errorf("tries that failed wrote %d times", after-before)
	}
}

// website#710, etcd#6278: whatever was under a lock's prefix blocked it.
func TestAForeignKeyIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, time.Minute)
	put := func(key string) {
		t.Helper()
		if _, err := e.client.Put(t.Context(), key, "not ours"); err != nil {
			t.Fatal(err)
		}
	}
	put(e.space.names("free"))       // in no line
	put(e.space.names("free/other")) // nor this
	put(string(e.space) + "free")    // nor this
	hold(t, s, tries(mutex("free")))
	hold(t, s, mutex("free/another"))
	odd := e.space.line("taken by a key").from + "odd"
	fake := e.space.line("taken by a claim").from + "x0123456789abcdef.0"
	put(odd)
	put(fake)
	reader := mutex("taken by a claim")
	reader.Limit = driver.All
	for _, c := range []driver.Claim{mutex("taken by a key"), mutex("taken by a claim"), reader} {
		for _, c := range []driver.Claim{c, tries(c)} {
			c.ID = newID()
			st, err := s.Enter(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "not pawl's") {
				t.Errorf("Enter where a foreign key stands: %+v, %v", st, err)
			}
		}
	}
	for _, key := range []string{odd, fake} {
		name := strings.TrimPrefix(key[:strings.Index(key, "\t")], e.space.names(""))
		if keys := keysOf(t, e, name); !slices.Equal(keys, []string{key}) {
			t.Errorf("the line of %q has %q", name, keys)
		}
		found := false
		for entry, err := range e.List(t.Context(), name) {
			found = found || err == nil && entry.Foreign && entry.Name == name
		}
		if !found {
			t.Errorf("List does not show what stands in the line of %q", name)
		}
	}
}

// consul#4902: a lock that was lost once could not be taken again.
func TestAMutexCanBeLockedAgainAfterALoss(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	var leases granted
	c := client(t, addr, 3*time.Second, leases.note())
	m := c.Mutex("name")
	l := lock(t, m)
	if _, err := dial(t, addr).Revoke(t.Context(), clientv3.LeaseID(leases.ids[0])); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(3*time.Second + soon):
		t.Fatal("nobody was told that the lease was revoked")
	}
	expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
	expect(t, "Unlock", l.Unlock(), pawl.ErrLost)
	again := lock(t, m)
	if again.Token() <= l.Token() {
		t.Errorf("token %d after %d", again.Token(), l.Token())
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}

// core#399: a lock that failed left its lease behind.
func TestClosingLeavesNoLease(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	admin := dial(t, addr)
	a, b := client(t, addr, time.Minute), client(t, addr, time.Minute)
	lock(t, a.Mutex("name"))
	lock(t, b.Mutex("other")) // a lease that is granted to nobody any more ends by itself, later
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Mutex("name").Lock(ctx); err == nil {
		t.Fatal("both hold")
	}
	a.Close()
	b.Close()
	left, err := admin.Leases(t.Context())
	if err != nil || len(left.Leases) > 0 {
		t.Errorf("%d leases are left, %v", len(left.Leases), err)
	}
	keys, err := admin.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || keys.Count > 0 {
		t.Errorf("%d keys are left, %v", keys.Count, err)
	}
}

// The session's lease has to outlive the context it was opened with (cilium#12619).
func TestASessionOutlivesTheContextOfItsOpening(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := mutex("name")
	hold(t, s, c)
	out := make([]driver.Standing, 1)
	if err := s.Beat(ctx, []driver.Claim{c}, out); err != nil { // opens the stream of its beats
		t.Fatal(err)
	}
	cancel()
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
		t.Errorf("Beat after the contexts of Open and of the first Beat ended: %+v, %v", out, err)
	}
}

// The claim that a waiter watches may be a waiter itself, who gives up: its end is
// not the waiter's turn.
func TestAnEvictedWaiterLeavesThoseBehindInLine(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	var ss [4]*session
	var cs [4]driver.Claim
	var st [4]driver.Standing
	for i := range ss {
		ss[i], cs[i] = open(t, e, time.Minute), mutex("name")
		st[i] = enter(t, ss[i], cs[i])
	}
	last := begin(t, func() (driver.Standing, error) { return until(t.Context(), ss[3], cs[3], st[3]) })
	for entry, err := range e.List(t.Context(), "name") {
		if err != nil {
			t.Fatal(err)
		}
		if entry.ID == cs[2].ID { // right ahead of the last, and not the holder
			if err := e.Evict(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave(t, ss[0], cs[0])
	select {
	case <-last.done:
		t.Fatalf("the last holds: %+v, %v; the second does", last.value, last.err)
	case <-time.After(200 * time.Millisecond): // long enough for a wrong wake, no reason to fail when slow
	}
	leave(t, ss[1], cs[1])
	if st, err := last.within(t, soon, "the turn of the last"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A cluster is put back to what it was before: it knows nothing of who holds since.
func TestARestoredBackupTellsHoldersThatTheyLost(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	addr := []string{server.Addr()}
	data := filepath.Join(server.Dir(), "data")
	server.Stop()
	if err := os.CopyFS(data+".old", os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	c := client(t, addr, 5*time.Second)
	for range 5 {
		if err := lock(t, c.Mutex("name")).Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	l := lock(t, c.Mutex("name"))
	server.Stop()
	if err := errors.Join(os.RemoveAll(data), os.Rename(data+".old", data)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	select {
	case <-l.Context().Done():
	case <-time.After(5*time.Second + soon):
		t.Fatal("a holder of whom the cluster knows nothing was not told")
	}
	expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
	again := lock(t, c.Mutex("name"))
	if again.Token() >= l.Token() {
		t.Errorf("token %d after %d: the documents say that tokens go back", again.Token(), l.Token())
	}
}

// A leader of etcd 3.4 that has not applied an Enter yet does not count its key among
// the lease's: that must not be taken for an eviction.
func TestAKeyThatTheLeaderHasNotHeardOfYetIsNotGone(t *testing.T) {
	t.Parallel()
	var hide atomic.Bool
	e := engine(t, []string{testserver.Etcd(t).Addr()}, each(func(_ string, _, reply any, _ error) {
		if r, ok := reply.(*pb.LeaseTimeToLiveResponse); ok && hide.Load() {
			r.Keys = nil
		}
	}))
	s := open(t, e, time.Minute)
	there, gone := mutex("there"), mutex("gone")
	hold(t, s, there)
	hold(t, s, gone)
	deleteLine(t, e, "gone")
	hide.Store(true)
	out := make([]driver.Standing, 2)
	if err := s.Beat(t.Context(), []driver.Claim{there, gone}, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Gone || out[0].Valid != s.TTL() || !out[1].Gone {
		t.Errorf("Beat: %+v; the first is there, the second is not", out)
	}
}
