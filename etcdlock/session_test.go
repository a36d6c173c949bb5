package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The first keepalive after a grant went to a member that did not know the lease yet, and
// ended a live session (etcd#13932).
func TestAMemberThatDoesNotKnowTheLeaseYetDoesNotEndTheSession(t *testing.T) {
	t.Parallel()
	var fault atomic.Bool
	e := engine(t, []string{sharedEtcd(t).Addr()}, onMessage(func(_ string, m any) {
		if r, ok := m.(*pb.LeaseKeepAliveResponse); ok && fault.Load() {
			r.TTL = 0
		}
	}))
	s := open(t, e, longTTL)
	c := mutex("name")
	hold(t, s, c)
	out := make([]driver.Standing, 1)
	fault.Store(true)
	err := s.Beat(t.Context(), []driver.Claim{c}, out)
	if errors.Is(err, driver.ErrGone) || out[0].Gone || out[0].Valid != 0 {
		t.Errorf("Beat refused by a member: %+v, %v; the lease exists and was not prolonged", out[0], err)
	}
	expect(t, "Beat refused by a member", err, driver.ErrUnreachable)
	fault.Store(false)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
		t.Errorf("Beat after it: %+v, %v", out[0], err)
	}
}

// etcd#22081, #22094: keepalives of several leases on one client were mixed up.
func TestTheEndOfOneSessionDoesNotEndAnotherOfTheSameClient(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	a, b := open(t, e, longTTL), open(t, e, longTTL)
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
	if _, err := clientOf(e).Revoke(t.Context(), a.lease.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, "Beat of a revoked lease", a.Beat(t.Context(), []driver.Claim{ca}, out), driver.ErrGone)
	if err := b.Beat(t.Context(), []driver.Claim{cb}, out); err != nil || out[0].Gone {
		t.Errorf("Beat of the other lease: %+v, %v", out, err)
	}
}

// The session's lease has to outlive the context it was opened with (cilium#12619).
func TestASessionOutlivesTheContextOfItsOpen(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: longTTL})
	if err != nil {
		t.Fatal(err)
	}
	c := mutex("name")
	hold(t, s, c)
	out := make([]driver.Standing, 1)
	if err := s.Beat(ctx, []driver.Claim{c}, out); err != nil { // opens the keepalive stream
		t.Fatal(err)
	}
	cancel()
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
		t.Errorf("Beat after the contexts of Open and of the first Beat ended: %+v, %v", out, err)
	}
}

// errNoAnswer says that there was none; the client does not repeat the call by itself.
var errNoAnswer = status.Error(codes.Internal, "the connection broke in the middle of the answer")

// A cluster that is slow grants also leases that nobody waits for any more. Each attempt to
// open a session asks for the same one.
func TestOpenAgainAsksForTheSameLease(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	admin := dial(t, addr)
	grants := func(request any) bool { _, ok := request.(*pb.LeaseGrantRequest); return ok }
	var p interceptor
	e := engine(t, addr, p.option())
	const attempts = 5
	for i := range attempts {
		p.next(grants, func(send func() error) error {
			if i > 0 { // else there is nothing to find
				_ = send()
			}
			return errNoAnswer
		})
		_, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: time.Minute})
		expect(t, "Open without an answer", err, driver.ErrUnreachable)
	}
	p.next(grants, loseAnswer) // which the client repeats by itself
	s, other := open(t, e, time.Minute), open(t, e, time.Minute)
	if s.lease.ID == other.lease.ID {
		t.Error("two sessions share a lease")
	}
	if s.TTL() != time.Minute {
		t.Errorf("the TTL is %v", s.TTL())
	}
	hold(t, s, mutex("name"))
	if st := beat(t, s, mutex("other")); !st.Gone {
		t.Errorf("Beat of a claim that was not entered: %+v", st)
	}
	left, err := admin.Leases(t.Context())
	if err != nil || len(left.Leases) != 2 {
		t.Errorf("two sessions, one of them after %d attempts, have %d leases, %v", attempts+1, len(left.Leases), err)
	}
}

// The lease that an earlier attempt made is renewed: a session lives a TTL from its Open.
func TestASessionOfAnOlderLeaseHasItsWholeTime(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	grants := func(request any) bool { _, ok := request.(*pb.LeaseGrantRequest); return ok }
	var p interceptor
	e := engine(t, []string{testserver.Etcd(t).Addr()}, p.option())
	p.next(grants, func(send func() error) error { _ = send(); return errNoAnswer })
	_, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: ttl})
	expect(t, "Open without an answer", err, driver.ErrUnreachable)
	time.Sleep(ttl * 3 / 5)
	sent := time.Now()
	s := open(t, e, ttl)
	left, err := clientOf(e).TimeToLive(t.Context(), s.lease.ID)
	if took := time.Since(sent); err != nil || left.TTL < int64((ttl-took)/time.Second) {
		t.Errorf("%d s are left of %v, %v after Open; %v", left.TTL, ttl, took, err)
	}
}

// core#399: a lock that failed left its lease behind.
func TestClosingLeavesNoLease(t *testing.T) {
	t.Parallel()
	addr := []string{testserver.Etcd(t).Addr()}
	admin := dial(t, addr)
	a, b := client(t, addr, time.Minute), client(t, addr, time.Minute)
	lock(t, a.Mutex("name"))
	lock(t, b.Mutex("other")) // so that its session is open; a lease whose grant was not awaited ends later, by itself
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
