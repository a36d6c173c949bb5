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

// etcd#19597, #11456: a waiter learnt only after the claims ahead had left that its own
// lease was gone, or it was granted the lock.
func TestAWaiterWhoseLeaseIsRevokedIsNotifiedAtOnce(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	st := wait(t, b, cb)
	notified := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cb, st) })
	if _, err := clientOf(e).Revoke(t.Context(), b.lease.ID); err != nil {
		t.Fatal(err)
	}
	st, err := notified.within(t, soon, "notifying a waiter that its lease was revoked")
	if st.Held || !st.Gone && !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await: %+v, %v, not gone", st, err)
	}
	leave(t, a, ca)
	if st, err := b.Await(t.Context(), cb, driver.Standing{}); st.Held || !st.Gone {
		t.Errorf("Await with no claim ahead: %+v, %v, not gone", st, err)
	}
	if st, err := b.Enter(t.Context(), mutex("name")); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Enter under a revoked lease: %+v, %v, not ErrGone", st, err)
	}
}

// charts#326: a candidate became leader with no key left.
func TestAWaiterThatExpiredNeverHolds(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	e := engine(t, addr)
	a, b := open(t, e, longTTL), open(t, e, time.Second)
	ca, cb := mutex("name"), mutex("name")
	hold(t, a, ca)
	st := wait(t, b, cb)
	notified := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cb, st) })
	st, err := notified.within(t, 4*b.TTL()+soon, "the end of a waiter without beats")
	leave(t, a, ca)
	if st.Held || err != nil || !st.Gone {
		t.Errorf("Await: %+v, %v, not gone", st, err)
	}
	if st := enter(t, a, tries(mutex("name"))); !st.Held {
		t.Errorf("the expired waiter blocks others: %+v", st)
	}
}

// A wait continues in a new session when an operator revoked the lease of its own.
func TestAWaitSurvivesTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var leases leaseLog
	a, b := client(t, addr, 10*time.Second), client(t, addr, 3*time.Second, leases.note())
	l := lock(t, a.Mutex("name"))
	got := begin(t, func() (*pawl.Lease, error) { return b.Mutex("name").Lock(t.Context()) })
	e := engine(t, addr)
	awaitLine(t, e, "name", 2)
	leases.mu.Lock()
	id := leases.ids[0]
	leases.mu.Unlock()
	if _, err := clientOf(e).Revoke(t.Context(), clientv3.LeaseID(id)); err != nil {
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

// awaitLine waits until n claims are in line.
func awaitLine(t testing.TB, e *Engine, name string, n int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		keys := keysOf(t, e, name)
		if len(keys) == n {
			return
		}
		if time.Since(start) > 4*soon {
			t.Fatalf("%d are in line, not %d: %q", len(keys), n, keys)
		}
	}
}

// etcd#10111: a wait that was cancelled at the moment of its grant returned neither an
// error nor a lock.
func TestACancelledWaitEitherHoldsOrHasLeft(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
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

// The claim that a waiter watches may itself be waiting. Its end is not the waiter's turn.
func TestAnEvictedWaiterLeavesThoseBehindInLine(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	var ss [4]*session
	var cs [4]driver.Claim
	var st [4]driver.Standing
	for i := range ss {
		ss[i], cs[i] = open(t, e, longTTL), mutex("name")
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
		t.Fatalf("the last claim holds: %+v, %v; the second one does", last.value, last.err)
	case <-time.After(200 * time.Millisecond): // long enough for a wrong wake, no reason to fail when slow
	}
	leave(t, ss[1], cs[1])
	if st, err := last.within(t, soon, "the turn of the last"); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A laggingMember makes a client's serializable reads return an old revision, as a member
// that is behind would.
type laggingMember struct{ rev atomic.Int64 } // the last revision that the member has applied; 0: all

func (l *laggingMember) option() grpc.DialOption {
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

// One member reports a departure to a waiter, and another member, which has not applied
// the departure or not even the waiter's Enter, answers its next read.
func TestAMemberThatLagsCostsNoTurnAndNoPlace(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]func(first, second int64) int64{
		"it does not know that the holder left": func(_, second int64) int64 { return second },
		"it does not know the waiter":           func(_, second int64) int64 { return second - 1 },
		"it knows neither of them":              func(first, _ int64) int64 { return first - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{sharedEtcd(t).Addr()}
			var l laggingMember
			a, b := open(t, engine(t, addr), longTTL), open(t, engine(t, addr, l.option()), longTTL)
			ca, cb := mutex("name"), mutex("name")
			first := hold(t, a, ca)
			wait(t, b, cb)
			awaitOwnWatch(t, b, cb)
			b.mu.Lock()
			entered := b.claims[cb.ID].revision
			b.mu.Unlock()
			l.rev.Store(applied(int64(first.Token), entered))
			// A watch on such a member starts at a revision that the member has applied.
			if st, err := b.look(t.Context(), b.find(cb), 1); err != nil || st.Held || st.Gone {
				t.Errorf("a look with one claim ahead: %+v, %v", st, err)
			}
			leave(t, a, ca)
			got := begin(t, func() (driver.Standing, error) {
				return until(t.Context(), b, cb, driver.Standing{Pause: time.Minute})
			})
			if st, err := got.within(t, soon, "the turn"); err != nil || !st.Held || st.Token != uint64(entered) {
				t.Errorf("Await: %+v, %v of the claim that was entered at %d", st, err, entered)
			}
		})
	}
}
