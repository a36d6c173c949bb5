package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// etcd#19597, #11456: a waiter learnt only when those ahead had left that its own
// lease was gone, or was told that it holds.
func TestAWaiterWhoseLeaseIsRevokedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
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
	addr := []string{common(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, unbeaten), open(t, e, time.Second)
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
	addr := []string{common(t).Addr()}
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

// etcd#10111: a wait that was cancelled in the moment of its grant returned
// neither an error nor a lock.
func TestACancelledWaitEitherHoldsOrHasLeft(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
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

// The claim that a waiter watches may be a waiter itself, who gives up: its end is
// not the waiter's turn.
func TestAnEvictedWaiterLeavesThoseBehindInLine(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	var ss [4]*session
	var cs [4]driver.Claim
	var st [4]driver.Standing
	for i := range ss {
		ss[i], cs[i] = open(t, e, unbeaten), mutex("name")
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

// A laggard is a client's option that has reads which any member may answer be answered
// as by one that is behind.
type laggard struct{ rev atomic.Int64 } // what that member has heard of last; 0: of everything

func (l *laggard) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		rev, behind := l.rev.Load(), false
		txn, ok := request.(*pb.TxnRequest)
		for _, op := range txn.GetSuccess() {
			if read := op.GetRequestRange(); ok && rev != 0 && read.GetSerializable() {
				read.Revision, behind = rev, true
			}
		}
		err := invoke(ctx, method, request, reply, cc, opts...)
		if err == nil && behind {
			reply.(*pb.TxnResponse).Header.Revision = rev
		}
		return err
	})
}

// Who is told of a departure by one member may be answered by another that has not heard
// of it, or not even of the one who waits.
func TestAMemberThatIsBehindCostsNoTurnAndNoPlace(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]func(first, second int64) int64{
		"it does not know that the holder left": func(_, second int64) int64 { return second },
		"it does not know who waits":            func(_, second int64) int64 { return second - 1 },
		"it knows neither of them":              func(first, _ int64) int64 { return first - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{common(t).Addr()}
			var l laggard
			a, b := open(t, engine(t, addr), unbeaten), open(t, engine(t, addr, l.option()), unbeaten)
			ca, cb := mutex("name"), mutex("name")
			first := hold(t, a, ca)
			wait(t, b, cb)
			settled(t, b, cb)
			b.mu.Lock()
			entered := b.spots[cb.ID].rev
			b.mu.Unlock()
			l.rev.Store(heard(int64(first.Token), entered))
			// What such a member tells begins at a revision that is over for it too.
			if st, err := b.look(t.Context(), b.find(cb), 1); err != nil || st.Held || st.Gone {
				t.Errorf("a look with one ahead: %+v, %v", st, err)
			}
			leave(t, a, ca)
			got := begin(t, func() (driver.Standing, error) {
				return until(t.Context(), b, cb, driver.Standing{Pause: time.Minute})
			})
			if st, err := got.within(t, soon, "the turn"); err != nil || !st.Held || st.Token != uint64(entered) {
				t.Errorf("Await: %+v, %v of what was entered at %d", st, err, entered)
			}
		})
	}
}
