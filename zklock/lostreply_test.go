package zklock

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

func TestAnEnterWhoseReplyIsLostStandsInLineOnce(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	s := open(t, e, time.Minute)
	warm := mutex()
	hold(t, s, warm) // so that the container is there and the next Multi is the Enter
	leave(t, s, warm)

	c := mutex()
	p.SwallowReplies(1, faultproxy.Matching(asks(opMulti)), faultproxy.ThenCut())
	_, err := s.Enter(t.Context(), c)
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("Enter whose reply was lost: %v, not ErrUnreachable", err)
	}
	var st driver.Standing
	if err := persist(func() (err error) { st, err = s.Enter(t.Context(), c); return err }); err != nil || !st.Held {
		t.Fatalf("Enter again: %+v, %v", st, err)
	}
	if p.Swallowed() != 1 {
		t.Fatalf("%d replies were swallowed", p.Swallowed())
	}
	all := listed(t, e, "job")
	if len(all) != 1 || all[0].ID != c.ID || all[0].Fence != st.Token {
		t.Errorf("in line: %+v; Enter said token %d", all, st.Token)
	}
	leave(t, s, c)
	expectLine(t, e)
}

// Others stand before it and behind it, so that a second node would be another place.
func TestAnEnterWhoseReplyIsLostKeepsItsPlaceAmongOthers(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	s, other := open(t, e, time.Minute), open(t, connect(t, []string{oneServer(t)}, WithPath(path)), time.Minute)
	first, c, third := mutex(), mutex(), mutex()
	hold(t, other, first)
	p.SwallowReplies(1, faultproxy.Matching(func(b []byte) bool { return asks(opMulti)(b) || asks(opCreate)(b) }), faultproxy.ThenCut())
	if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) || p.Swallowed() != 1 {
		t.Fatalf("Enter whose reply was lost: %v, %d replies were swallowed", err, p.Swallowed())
	}
	stand(t, other, third)
	var st driver.Standing
	if err := persist(func() (err error) { st, err = s.Enter(t.Context(), c); return err }); err != nil || st.Held || st.Ahead != 1 {
		t.Fatalf("Enter again: %+v, %v", st, err)
	}
	expectLine(t, e, first, c, third)
}

// samuel#229, CURATOR-264: after a reply was lost the session went on with another
// server, which had not heard of the node yet, and made a second.
func TestAnEnterWhoseReplyIsLostIsFoundOnAnotherServer(t *testing.T) {
	t.Parallel()
	nodes := threeServers(t)
	p := faultproxy.New(t, nodes[0])
	var moved atomic.Bool
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		if moved.Load() {
			addr = nodes[1]
		}
		return net.DialTimeout(network, addr, timeout)
	}
	e := connect(t, []string{p.Addr()}, WithPath(pathOf(t)), WithDialer(dial))
	s := open(t, e, time.Minute)
	for range 5 {
		moved.Store(false)
		s.conn.Reconnect() // back to the first
		warm, c := mutex(), mutex()
		if err := persist(func() error { _, err := s.Enter(t.Context(), warm); return err }); err != nil {
			t.Fatal(err)
		}
		if err := persist(func() error { return s.Leave(t.Context(), warm) }); err != nil {
			t.Fatal(err)
		}
		before := p.Swallowed()
		p.SwallowReplies(1, faultproxy.Matching(asks(opMulti)), faultproxy.ThenCut())
		moved.Store(true)
		if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("Enter whose reply was lost: %v, not ErrUnreachable", err)
		}
		var st driver.Standing
		if err := persist(func() (err error) { st, err = s.Enter(t.Context(), c); return err }); err != nil || !st.Held {
			t.Fatalf("Enter again: %+v, %v", st, err)
		}
		if p.Swallowed() != before+1 {
			t.Fatal("no reply was lost")
		}
		expectLine(t, e, c)
		leave(t, s, c)
	}
}

func TestAnEnterWhoseReplyIsLostIsEndedByLeave(t *testing.T) {
	t.Parallel()
	e, p := through(t, pathOf(t))
	s := open(t, e, time.Minute)
	warm := mutex()
	hold(t, s, warm)
	leave(t, s, warm)
	c := mutex()
	p.SwallowReplies(1, faultproxy.Matching(asks(opMulti)), faultproxy.ThenCut())
	if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("Enter: %v", err)
	}
	if err := persist(func() error { return s.Leave(t.Context(), c) }); err != nil {
		t.Fatalf("Leave: %v", err)
	}
	expectLine(t, e)
	if err := s.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Leave again: %v", err)
	}
}

// The reply is only late: the caller's ctx ends, Leave comes, and then the answer.
func TestAnEnterThatWasGivenUpIsEndedByLeave(t *testing.T) {
	t.Parallel()
	e, p := through(t, pathOf(t))
	s := open(t, e, time.Minute)
	warm := mutex()
	hold(t, s, warm)
	leave(t, s, warm)

	c := mutex()
	ctx, cancel := context.WithCancel(t.Context())
	p.BlackHole(faultproxy.ToClient)
	entered := make(chan error)
	go func() { _, err := s.Enter(ctx, c); entered <- err }()
	other := connect(t, []string{oneServer(t)}, WithPath(e.path))
	expectEvents(t, s, func() bool { return len(listed(t, other, "job")) == 1 }) // it has landed
	cancel()
	if err := <-entered; !errors.Is(err, context.Canceled) {
		t.Fatalf("Enter: %v", err)
	}
	left := make(chan error)
	go func() { left <- s.Leave(t.Context(), c) }()
	p.Heal()
	if err := <-left; err != nil {
		t.Fatalf("Leave: %v", err)
	}
	expectLine(t, other)
}

func TestALeaveWhoseReplyIsLostEndsNothingLater(t *testing.T) {
	t.Parallel()
	e, p := through(t, pathOf(t))
	s := open(t, e, time.Minute)
	c := mutex()
	hold(t, s, c)
	p.SwallowReplies(1, faultproxy.Matching(asks(opDelete)), faultproxy.ThenCut())
	if err := s.Leave(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("Leave whose reply was lost: %v", err)
	}
	later := c
	later.Try++
	var st driver.Standing
	if err := persist(func() (err error) { st, err = s.Enter(t.Context(), later); return err }); err != nil || !st.Held {
		t.Fatalf("the next try: %+v, %v", st, err)
	}
	for range 2 {
		if err := s.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave again: %v, not ErrGone", err)
		}
	}
	expectLine(t, e, later)
}

func TestALeaveWithAnEndedCtxCanBeRepeated(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	c := mutex()
	hold(t, s, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Leave(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("Leave: %v", err)
	}
	expectLine(t, e, c)
	leave(t, s, c)
	expectLine(t, e)
}

// A claim whose Enter landed twice, as when the library sent it again, is taken
// for one and ended as one.
func TestAClaimThatWasCreatedTwiceIsReducedToOne(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	c := mutex()
	first := hold(t, s, c)
	as := []*entering{{Claim: c, state: &claimState{claim: c}, version: -1}}
	if _, err := s.sendMulti(t.Context(), as); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.claims[c.ID] = &claimState{claim: c, mayExist: true} // nothing is known of either
	s.mu.Unlock()
	if again := hold(t, s, c); again.Token != first.Token {
		t.Errorf("token %d, then %d", first.Token, again.Token)
	}
	leave(t, s, c)
	if err := s.Leave(t.Context(), c); err != nil && !errors.Is(err, driver.ErrGone) {
		t.Fatal(err)
	}
	expectLine(t, e)
}
