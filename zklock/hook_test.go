package zklock

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// user makes a connection as a user does, with a hook.
func user(t *testing.T, addr string, timeout time.Duration, hook *Hook) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}), hook.Option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestAConnectionOfAnotherHookIsRefused(t *testing.T) {
	t.Parallel()
	hook := NewHook()
	user(t, oneServer(t), 10*time.Second, hook)
	if _, err := New(raw(t), hook); err == nil {
		t.Error("an engine was made on a connection that its hook does not see")
	}
	if _, err := New(raw(t), nil); err == nil {
		t.Error("an engine was made without a hook")
	}
}

func TestAConnectionWithAnotherDialerIsRefused(t *testing.T) {
	t.Parallel()
	hook := NewHook()
	conn, _, err := zk.Connect([]string{oneServer(t)}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}),
		hook.Option, zk.WithDialer(net.DialTimeout))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := conn.Exists("/"); err != nil { // it has a session
		t.Fatal(err)
	}
	e, err := New(conn, hook, WithPath(pathOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: time.Second}); err == nil {
		t.Error("a session was opened on a connection that the hook does not see")
	}
}

// Sessions on one connection share a ZooKeeper session, and a claim may have moved to another
// of them with a higher try.
func TestALateLeaveInAnotherSessionOfTheConnectionEndsNothing(t *testing.T) {
	t.Parallel()
	hook := NewHook()
	e, err := New(user(t, oneServer(t), 10*time.Second, hook), hook, WithPath(pathOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	old, s := open(t, e, 0), open(t, e, 0)
	c := mutex()
	again := c
	again.Try++
	hold(t, s, again)
	if err := old.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Leave: %v", err)
	}
	expectLine(t, e, again)
	leave(t, s, again)
}

func TestTheUsersConnectionOutlivesTheEngine(t *testing.T) {
	t.Parallel()
	hook := NewHook()
	dialed, events := make(chan string, 10), make(chan zk.Event, 100)
	hook.Dial = func(network, addr string, timeout time.Duration) (net.Conn, error) {
		dialed <- addr
		return net.DialTimeout(network, addr, timeout)
	}
	hook.Event = func(ev zk.Event) { events <- ev }
	conn := user(t, oneServer(t), 10*time.Second, hook)
	path := pathOf(t)
	e, err := New(conn, hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	c := pawl.New(e, pawl.WithTTL(5*time.Second))
	lease, err := c.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lease.Token() == 0 {
		t.Error("no token")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := conn.Exists("/"); err != nil {
		t.Errorf("the connection after the engine's Close: %v", err)
	}
	expectLine(t, connect(t, []string{oneServer(t)}, WithPath(path)))
	if len(dialed) == 0 || len(events) == 0 {
		t.Errorf("the user's own dialer was called %d times and callback %d times", len(dialed), len(events))
	}
}

func TestALongerTTLThanTheConnectionHasIsRefused(t *testing.T) {
	t.Parallel()
	hook := NewHook()
	e, err := New(user(t, oneServer(t), 4*time.Second, hook), hook, WithPath(pathOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := pawl.New(e, pawl.WithTTL(10*time.Second))
	defer c.Close()
	if _, err := c.Mutex("job").Lock(t.Context()); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("%v, not ErrInvalid", err)
	}
	short := pawl.New(e, pawl.WithTTL(time.Second))
	defer short.Close()
	l, err := short.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(l.Deadline()); left > 3*time.Second {
		t.Errorf("%v are left of a timeout of 4s", left)
	}
}

// Servers under load may need a while to begin a session, and the user's timeout allows it.
func TestTheFirstHandshakeOnTheUsersConnectionMayTakeAWhile(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, oneServer(t))
	p.Delay(faultproxy.ToClient, 1500*time.Millisecond)
	hook := NewHook()
	e, err := New(user(t, p.Addr(), 10*time.Second, hook), hook, WithPath(pathOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	defer p.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: time.Second}); err != nil {
		t.Error(err)
	}
}

// The connection's ZooKeeper session ends and the library begins a new one by itself: claims
// of the old are lost, and new sessions live in the new.
func TestANewZooKeeperSessionOnTheUsersConnectionEndsTheOldSessions(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	p := faultproxy.New(t, oneServer(t))
	hook := NewHook()
	conn := user(t, p.Addr(), 3*time.Second, hook)
	e, err := New(conn, hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	a, b := open(t, e, 100*time.Millisecond), open(t, e, 100*time.Millisecond)
	a.expiryTimer.Stop()
	b.expiryTimer.Stop()
	ca, cb := mutex(), mutex()
	hold(t, a, ca)
	stand(t, b, cb)
	p.Refuse()
	p.Reset()
	expectEvents(t, a, func() bool { return len(listed(t, direct, "job")) == 0 })
	p.Heal()
	for _, s := range []*session{a, b} {
		select {
		case <-s.Lost():
		case <-time.After(patience):
			t.Fatal("a session of the old ZooKeeper session was not told")
		}
		if _, err := s.Enter(t.Context(), mutex()); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Enter: %v, not ErrGone", err)
		}
	}
	fresh := open(t, e, 100*time.Millisecond)
	if fresh.zs == a.zs {
		t.Error("the new session lives by the old ZooKeeper session")
	}
	c := mutex()
	hold(t, fresh, c)
	expectLine(t, direct, c)
}

// A session on the user's connection ends while the servers are away: its claims
// must not stay for as long as the connection lives.
func TestWhatASessionLeftOnTheUsersConnectionIsEndedLater(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	p := faultproxy.New(t, oneServer(t))
	hook := NewHook()
	e, err := New(user(t, p.Addr(), 20*time.Second, hook), hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	s := open(t, e, time.Second)
	hold(t, s, mutex())
	stand(t, s, mutex())
	p.Refuse()
	p.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("Close says that the claims have ended")
	}
	if n := len(listed(t, direct, "job")); n != 2 {
		t.Fatalf("%d claims are listed", n)
	}
	p.Heal()
	expectEvents(t, s, func() bool { return len(listed(t, direct, "job")) == 0 })
}

// With its connection the user ends all locks on it, at once: a holder must
// know before another can.
func TestTheUsersOwnCloseIsToldBeforeAnotherHolds(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	hook := NewHook()
	conn := user(t, oneServer(t), 20*time.Second, hook)
	e, err := New(conn, hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := pawl.New(e, pawl.WithTTL(15*time.Second))
	defer c.Close()
	lease, err := c.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	rival := open(t, direct, time.Minute)
	next := mutex()
	stand(t, rival, next)
	s := e.sessions.All()[0] // the client's
	go conn.Close()
	turn(t, rival, next)
	select {
	case <-s.Lost():
	default:
		t.Error("another holds, and the session was not told")
	}
	begun, left := time.Now(), time.Until(lease.Deadline())
	<-lease.Context().Done() // at the latest by the clock
	if late := time.Since(begun); late > left/2 {
		t.Errorf("the holder was told by the clock alone, %v after another held", late.Round(time.Millisecond))
	}
	if err := lease.Err(); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("the lease's Err: %v", err)
	}
	if err := s.Beat(t.Context(), nil, nil); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Beat: %v, not ErrGone", err)
	}
}
