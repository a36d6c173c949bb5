package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// etcd#22082: a delete whose reply was lost was sent again and removed a later hold.
func TestARepeatedLeaveEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	s := open(t, engine(t, []string{sharedEtcd(t).Addr()}, loseReply(&lose)), longTTL)
	old := mutex("name")
	hold(t, s, old)
	lose.Store(true)
	if err := s.Leave(t.Context(), old); !errors.Is(err, driver.ErrUnreachable) || lose.Load() {
		t.Fatalf("Leave whose reply was lost: %v, not ErrUnreachable", err)
	}
	later := mutex("name")
	first := hold(t, s, later) // the key of the old one is free for it
	expect(t, "Leave, sent again", s.Leave(t.Context(), old), driver.ErrGone)
	if again := hold(t, s, later); again.Token != first.Token {
		t.Errorf("token %d became %d", first.Token, again.Token)
	}
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{later}, out); err != nil || out[0].Gone {
		t.Errorf("Beat: %+v, %v; a Leave of an earlier claim ended it", out, err)
	}
}

// A delete is delayed in the network and its caller gives up. Another claim of the session
// gets the name, and the delete must not end it when it arrives.
func TestALateLeaveEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	goOn, arrived := make(chan struct{}), make(chan error, 1)
	late := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !stuck.CompareAndSwap(true, false) {
			return invoke(ctx, method, request, reply, cc, opts...)
		}
		go func() { // the test receives from arrived
			<-goOn
			arrived <- invoke(context.WithoutCancel(ctx), method, request, reply, cc)
		}()
		return status.Error(codes.Unavailable, "the connection broke")
	})
	addr := []string{sharedEtcd(t).Addr()}
	e, direct := engine(t, addr, late), engine(t, addr)
	s := open(t, e, longTTL)
	old, later := mutex("name"), mutex("name")
	hold(t, s, old)
	stuck.Store(true)
	expect(t, "Leave that is delayed", s.Leave(t.Context(), old), driver.ErrUnreachable)
	leave(t, s, old) // as the core does, until it is answered
	hold(t, s, later)
	close(goOn)
	if err := <-arrived; err != nil {
		t.Fatal(err)
	}
	if keys := keysOf(t, direct, "name"); len(keys) != 1 {
		t.Errorf("%q are in line after a late Leave", keys)
	}
	leave(t, s, later)
}

// The reply to an Enter is lost, and the same Enter is sent again: it finds its place.
func TestARepeatedEnterKeepsItsPlace(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	addr := []string{sharedEtcd(t).Addr()}
	direct, s := engine(t, addr), open(t, engine(t, addr, loseReply(&lose)), longTTL)
	for _, c := range []driver.Claim{mutex("queued"), tries(mutex("tried"))} {
		lose.Store(true)
		if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) || lose.Load() {
			t.Fatalf("Enter whose reply was lost: %v, not ErrUnreachable", err)
		}
		if keys := keysOf(t, direct, c.Name); len(keys) != 1 {
			t.Fatalf("%q in line: the Enter should have arrived", keys)
		}
		hold(t, s, c)
		if keys := keysOf(t, direct, c.Name); len(keys) != 1 {
			t.Errorf("%q in line after Enter was sent again", keys)
		}
		leave(t, s, c)
	}
}

// An Enter is delayed in the network, Leave overtakes it and finds nothing, another claim
// gets the slot, and then the Enter arrives.
func TestALateEnterDoesNotTakeThePlaceOfAnotherClaim(t *testing.T) {
	t.Parallel()
	server := sharedEtcd(t)
	e := engine(t, []string{server.Addr()})
	s := open(t, e, longTTL)
	late := mutex("name")
	p := s.newClaim(late) // as Enter makes it
	key, value := p.key, p.value
	expect(t, "Leave of a claim that has not arrived", s.Leave(t.Context(), late), driver.ErrGone)
	next := mutex("name")
	if _, err := clientOf(e).Put(t.Context(), key, value, withLease(s)); err != nil { // it arrives
		t.Fatal(err)
	}
	st := wait(t, s, next) // its first slot has the late key
	if keys := keysOf(t, e, "name"); len(keys) != 2 {
		t.Fatalf("in line are %q, not the late claim and the next", keys)
	}
	leave(t, s, late) // as the core does until a TTL has passed
	if st, err := until(t.Context(), s, next, st); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
	if keys := keysOf(t, e, "name"); len(keys) != 1 {
		t.Errorf("in line are %q", keys)
	}
}

// Jepsen's note on etcd 3.4: a lock that timed out left a waiter behind that blocked all
// others until its lease ended.
func TestALockThatTimedOutLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	server := sharedEtcd(t)
	p := faultproxy.New(t, server.Addr())
	c, rival := client(t, []string{p.Addr()}, ttl), client(t, []string{server.Addr()}, ttl)
	if err := lock(t, c.Mutex("warm")).Unlock(); err != nil {
		t.Fatal(err)
	}
	p.OnChunk(func(k faultproxy.Chunk) {
		if k.Dir == faultproxy.ToServer && k.Stage == faultproxy.Forwarded && contains("@line/name")(k.Data) {
			p.BlackHole(faultproxy.ToClient)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Mutex("name").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Lock whose reply is lost: %v", err)
	}
	p.OnChunk(nil)
	p.Heal()
	from := time.Now()
	l, err := rival.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a rival got the lock after %v, with a TTL of %v", time.Since(from), ttl)
	if took := time.Since(from); took > ttl/2 {
		t.Errorf("a rival got the lock only after %v", took)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// etcd#18082: a Lock whose context ended hung for as long as the servers were down.
func TestLockReturnsWithItsContextWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	server := sharedEtcd(t)
	p := faultproxy.New(t, server.Addr())
	holder, c := client(t, []string{server.Addr()}, time.Minute), client(t, []string{p.Addr()}, time.Minute)
	l := lock(t, holder.Mutex("name"))
	ctx, cancel := context.WithCancel(t.Context())
	got := begin(t, func() (*pawl.Lease, error) { return c.Mutex("name").Lock(ctx) })
	awaitLine(t, engine(t, []string{server.Addr()}), "name", 2)
	p.BlackHole(faultproxy.Both)
	cancel()
	_, err := got.within(t, etcdstore.MaxCallTimeout*4/5, "Lock whose context has ended")
	expect(t, "Lock whose context has ended", err, context.Canceled)
	p.Heal()
	awaitLine(t, engine(t, []string{server.Addr()}), "name", 1)
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// etcd#19091: a session learnt of its end up to a second after the server had granted the
// lock to a rival. Also consul#18271 and k8s#44887: it never learnt it while a call hung.
func TestALossIsReportedBeforeARivalHolds(t *testing.T) {
	t.Parallel()
	server := sharedEtcd(t)
	for name, cut := range map[string]func(*faultproxy.Proxy){
		"nothing arrives":   func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
		"no reply arrives":  func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.ToClient) },
		"replies come late": func(p *faultproxy.Proxy) { p.Delay(faultproxy.Both, time.Minute) },
		"all is refused":    func(p *faultproxy.Proxy) { p.Refuse(); p.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faultproxy.New(t, server.Addr())
			c, rival := client(t, []string{p.Addr()}, 3*time.Second), client(t, []string{server.Addr()}, 3*time.Second)
			l := lock(t, c.Mutex(name))
			got := begin(t, func() (*pawl.Lease, error) { return rival.Mutex(name).Lock(t.Context()) })
			awaitLine(t, engine(t, []string{server.Addr()}), name, 2)
			if name == "no reply arrives" {
				// The beats still arrive, so the server grants the lock to nobody; the holder must stop all the same.
				cut(p)
				select {
				case <-l.Context().Done():
				case <-got.done:
					t.Fatal("the rival holds, and the first holder was not notified")
				case <-time.After(4 * soon):
					t.Fatal("the holder was not notified that its beats have no answer")
				}
				p.Refuse()
				p.Reset()
			} else {
				cut(p)
			}
			next, err := got.within(t, 6*soon, "the rival's turn")
			if err != nil {
				t.Fatal(err)
			}
			if l.Err() == nil || l.Context().Err() == nil {
				t.Error("the rival holds, and the first holder was not notified")
			}
			expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			p.Reset()
			p.Heal()
			// client-go's tryRelease: a late release of a lost lock ended the next holder's.
			if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Unlock of a lost lock: %v", err)
			}
			if next.Err() != nil {
				t.Errorf("that ended the rival's lock: %v", next.Err())
			}
		})
	}
}

// etcd#14631, #19778: opening a session hung, also beyond its context, while the server was stopped.
func TestOpenEndsWithItsContextWhenTheServerIsStopped(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	open(t, e, longTTL) // so that there is a connection
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	opened := begin(t, func() (driver.Session, error) {
		return e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: longTTL})
	})
	_, err := opened.within(t, soon, "Open with a context that has ended")
	expect(t, "Open on a stopped server", err, context.DeadlineExceeded)
	server.Resume()
	open(t, e, longTTL)
}
