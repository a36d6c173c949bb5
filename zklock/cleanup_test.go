package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// borrowed returns an engine on a connection of a user's, through a proxy, and one
// beside it.
func borrowed(t *testing.T) (e, direct *Engine, p *faultproxy.Proxy) {
	t.Helper()
	path := pathOf(t)
	p = faultproxy.New(t, oneServer(t))
	hook := NewHook()
	e, err := New(user(t, p.Addr(), 20*time.Second, hook), hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	t.Cleanup(p.Heal)
	return e, connect(t, []string{oneServer(t)}, WithPath(path)), p
}

// The order of events: an Enter waits for a connection, its session is closed, which
// finds nothing to end, and then there is a connection. On one of the user's nothing
// else would ever end what the Enter makes.
func TestAnEnterThatOutlivesItsSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	e, direct, p := borrowed(t)
	s := open(t, e, time.Second)
	warm, c := mutex(), mutex()
	hold(t, s, warm)
	leave(t, s, warm)
	p.Refuse()
	p.Reset()
	expectEvents(t, s, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		return errors.Is(s.zs.Ready(ctx), driver.ErrUnreachable)
	})
	entered := make(chan error, 1)
	go func() {
		_, err := s.Enter(t.Context(), c)
		entered <- err
	}()
	expectEvents(t, s, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.claims[c.ID] != nil
	})
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	<-s.Lost()
	p.Heal()
	if err := <-entered; err == nil {
		t.Error("a closed session was entered")
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	expectLine(t, direct)
}

// The order of events: the next try of a claim finds the node of the one before and
// is to end it, but is not sent, and the session is closed.
func TestALowerTryIsNotForgottenByAnEnterThatFails(t *testing.T) {
	t.Parallel()
	e, direct, _ := borrowed(t)
	s := open(t, e, time.Second)
	c := mutex()
	hold(t, s, c)
	c.Try++
	as, _, err := s.register(t.Context(), []driver.Claim{c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.precheck(t.Context(), as, as); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.insert(ctx, as); !errors.Is(err, context.Canceled) {
		t.Fatalf("join: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	expectLine(t, direct)
}

// A session was closed while the servers were away; so its claims still stand when
// the engine gives up, and it must not say otherwise.
func TestTheEnginesCloseTellsWhatAnEarlierSessionHasLeft(t *testing.T) {
	t.Parallel()
	e, direct, p := borrowed(t)
	s := open(t, e, time.Second)
	hold(t, s, mutex())
	p.Refuse()
	p.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("the session's Close says that the claims have ended")
	}
	if err := e.Close(); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("the engine's Close: %v, and %d claims stand", err, len(listed(t, direct, "job")))
	}
}

// A right that was taken away is not asked for without end.
func TestASessionThatMayNotEndItsClaimsGivesUp(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	hook := NewHook()
	e, err := New(user(t, oneServer(t), 2*time.Second, hook), hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := open(t, e, time.Second)
	hold(t, s, mutex())
	conn := raw(t)
	if _, err := conn.SetACL(e.linePath("job"), zk.WorldACL(zk.PermRead), -1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, driver.ErrDenied) || ctx.Err() != nil {
		t.Errorf("Close: %v, not ErrDenied", err)
	}
}
