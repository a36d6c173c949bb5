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
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// etcd#22082: a delete whose reply was lost was sent again and removed a later hold.
func TestALeaveThatIsSentAgainEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	s := open(t, engine(t, []string{common(t).Addr()}, losing(&lose)), unbeaten)
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

// A delete is stuck in the network and its caller gives up. The name goes to another
// claim of the session, which the delete must not meet when it arrives.
func TestALateLeaveEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	goOn, landed := make(chan struct{}), make(chan error, 1)
	late := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !stuck.CompareAndSwap(true, false) {
			return invoke(ctx, method, request, reply, cc, opts...)
		}
		go func() { // the test waits for what it sends to landed
			<-goOn
			landed <- invoke(context.WithoutCancel(ctx), method, request, reply, cc)
		}()
		return status.Error(codes.Unavailable, "the connection broke")
	})
	addr := []string{common(t).Addr()}
	e, direct := engine(t, addr, late), engine(t, addr)
	s := open(t, e, unbeaten)
	old, later := mutex("name"), mutex("name")
	hold(t, s, old)
	stuck.Store(true)
	expect(t, "Leave that is stuck", s.Leave(t.Context(), old), driver.ErrUnreachable)
	leave(t, s, old) // as the core does, until it is answered
	hold(t, s, later)
	close(goOn)
	if err := <-landed; err != nil {
		t.Fatal(err)
	}
	if keys := keysOf(t, direct, "name"); len(keys) != 1 {
		t.Errorf("%q are in line after a late Leave", keys)
	}
	leave(t, s, later)
}

// The reply to an Enter is lost, the same Enter is sent again: it is the same place.
func TestAnEnterThatIsSentAgainStandsWhereItStood(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	addr := []string{common(t).Addr()}
	direct, s := engine(t, addr), open(t, engine(t, addr, losing(&lose)), unbeaten)
	for _, c := range []driver.Claim{mutex("queued"), tries(mutex("tried"))} {
		lose.Store(true)
		if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) || lose.Load() {
			t.Fatalf("Enter whose reply was lost: %v, not ErrUnreachable", err)
		}
		if keys := keysOf(t, direct, c.Name); len(keys) != 1 {
			t.Fatalf("%q in line: the Enter was to land", keys)
		}
		hold(t, s, c)
		if keys := keysOf(t, direct, c.Name); len(keys) != 1 {
			t.Errorf("%q in line after Enter was sent again", keys)
		}
		leave(t, s, c)
	}
}

// An Enter is stuck in the network, Leave overtakes it and finds nothing, the slot
// goes to another claim, and then the Enter lands.
func TestALateEnterDoesNotTakeAnothersPlace(t *testing.T) {
	t.Parallel()
	server := common(t)
	e := engine(t, []string{server.Addr()})
	s := open(t, e, unbeaten)
	late := mutex("name")
	p := s.newSpot(late) // as Enter makes it
	key, label := p.key, p.label
	expect(t, "Leave of what has not arrived", s.Leave(t.Context(), late), driver.ErrGone)
	next := mutex("name")
	if _, err := e.client.Put(t.Context(), key, label, withLease(s)); err != nil { // it lands
		t.Fatal(err)
	}
	st := wait(t, s, next) // in the slot that was free, had it not landed
	if keys := keysOf(t, e, "name"); len(keys) != 2 {
		t.Fatalf("in line are %q, not the late one and the next", keys)
	}
	leave(t, s, late) // as the core does until a TTL has passed
	if st, err := until(t.Context(), s, next, st); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
	if keys := keysOf(t, e, "name"); len(keys) != 1 {
		t.Errorf("in line are %q", keys)
	}
}

// Jepsen's note on etcd 3.4: a lock that timed out left a waiter behind that stopped
// all others until its lease ended.
func TestALockThatTimedOutLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	server := common(t)
	p := faultproxy.New(t, server.Addr())
	c, rival := client(t, []string{p.Addr()}, ttl), client(t, []string{server.Addr()}, ttl)
	if err := lock(t, c.Mutex("warm")).Unlock(); err != nil {
		t.Fatal(err)
	}
	p.OnChunk(func(k faultproxy.Chunk) {
		if k.Dir == faultproxy.ToServer && k.Stage == faultproxy.Forwarded && about("@line/name")(k.Data) {
			p.BlackHole(faultproxy.ToClient)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Mutex("name").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Lock whose reply is stuck: %v", err)
	}
	p.OnChunk(nil)
	p.Heal()
	from := time.Now()
	l, err := rival.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a rival got in after %v of a TTL of %v", time.Since(from), ttl)
	if took := time.Since(from); took > ttl/2 {
		t.Errorf("a rival got in only after %v", took)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// etcd#18082: a Lock whose context ended hung for as long as the servers were away.
func TestLockReturnsWithItsContextWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	server := common(t)
	p := faultproxy.New(t, server.Addr())
	holder, c := client(t, []string{server.Addr()}, time.Minute), client(t, []string{p.Addr()}, time.Minute)
	l := lock(t, holder.Mutex("name"))
	ctx, cancel := context.WithCancel(t.Context())
	got := begin(t, func() (*pawl.Lease, error) { return c.Mutex("name").Lock(ctx) })
	awaitLine(t, engine(t, []string{server.Addr()}), "name", 2)
	p.BlackHole(faultproxy.Both)
	cancel()
	_, err := got.within(t, longest*4/5, "Lock whose context has ended")
	expect(t, "Lock whose context has ended", err, context.Canceled)
	p.Heal()
	awaitLine(t, engine(t, []string{server.Addr()}), "name", 1)
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// etcd#19091: a session learnt of its end up to a second after the server let a
// rival in. Also consul#18271 and k8s#44887: it did not learn at all while a call hung.
func TestALossIsToldBeforeTheRivalHolds(t *testing.T) {
	t.Parallel()
	server := common(t)
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
				// The beats go on arriving, and the server lets nobody in; ours must end all the same.
				cut(p)
				select {
				case <-l.Context().Done():
				case <-got.done:
					t.Fatal("the rival holds and nobody was told")
				case <-time.After(4 * soon):
					t.Fatal("nobody was told that beats have no answer")
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
				t.Error("the rival holds, and the first was not told")
			}
			expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			p.Reset()
			p.Heal()
			// client-go's tryRelease: who lost a lock and gives it back later ended the next one's.
			if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Unlock of what was lost: %v", err)
			}
			if next.Err() != nil {
				t.Errorf("the rival lost it by that: %v", next.Err())
			}
		})
	}
}

// etcd#14631, #19778: a session could not be opened, nor given up, when the server stood still.
func TestOpeningEndsWithItsContextWhenTheServerStandsStill(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	open(t, e, unbeaten) // so that there is a connection
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	opened := begin(t, func() (driver.Session, error) {
		return e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: unbeaten})
	})
	_, err := opened.within(t, soon, "Open with a context that has ended")
	expect(t, "Open of a server that stands still", err, context.DeadlineExceeded)
	server.Resume()
	open(t, e, unbeaten)
}

// A connection is cut while one waits, and what the watch would go on from is
// compacted away (etcd#7815); the turn comes while nobody listens (python-etcd3#1107).
func TestAWaitOutlivesACutAndACompaction(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"the turn comes later": false, "the turn comes meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.Etcd(t)
			p := faultproxy.New(t, server.Addr())
			near, far := engine(t, []string{server.Addr()}), engine(t, []string{p.Addr()})
			a, b := open(t, near, unbeaten), open(t, far, unbeaten)
			ca, cb := mutex("name"), mutex("name")
			hold(t, a, ca)
			st := wait(t, b, cb)
			got := begin(t, func() (driver.Standing, error) {
				for st := st; ; {
					next, err := b.Await(t.Context(), cb, st)
					if errors.Is(err, driver.ErrUnreachable) {
						continue // as the core does
					}
					if err != nil || next.Held || next.Gone {
						return next, err
					}
					st = next
				}
			})
			listening(t, server)
			p.Refuse()
			p.Reset()
			for i := range 20 {
				if _, err := near.client.Put(t.Context(), "other", string(rune('a'+i))); err != nil {
					t.Fatal(err)
				}
			}
			if seen {
				leave(t, a, ca)
			}
			now, err := near.client.Put(t.Context(), "other", "last")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := near.client.Compact(t.Context(), now.Header.Revision); err != nil {
				t.Fatal(err)
			}
			p.Heal()
			if !seen {
				listening(t, server)
				leave(t, a, ca)
			}
			st, err = got.within(t, 2*soon, "the turn")
			if err != nil || !st.Held {
				t.Errorf("Await: %+v, %v", st, err)
			}
		})
	}
}

// One who watches a name is cut off, a claim departs, and what the watch would go on from
// is compacted away: it cannot know what it missed, and tells.
func TestAWatchThatBrokeTellsOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	p := faultproxy.New(t, server.Addr())
	near, far := engine(t, []string{server.Addr()}), engine(t, []string{p.Addr()})
	s, c := open(t, near, unbeaten), mutex("name")
	hold(t, s, c)
	told, err := far.Watch(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	p.Reset()
	leave(t, s, c)
	now, err := near.client.Put(t.Context(), "other", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.client.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	select {
	case _, open := <-told:
		if !open {
			t.Error("the watch has ended")
		}
	case <-time.After(4 * soon):
		t.Error("nobody was told of a departure")
	}
}
