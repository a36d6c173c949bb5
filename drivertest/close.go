package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// closeCases are about the ends of sessions and engines.
var closeCases = []lawCase{
	{name: "closing a session ends its claims and no others", law: 14, run: closeSession,
		why: "Two sessions hold and wait; one is closed: what it held is free, what it waited for has one less in line."},
	{name: "closing a session with expired claims in line harms nobody", law: 14, needs: needs{queue: true}, run: closeAmongDead,
		why: "A dead claim stands ahead of the session's own when it is closed: only the dead and its own go."},
	{name: "a closed session refuses to enter", law: 14, run: enterClosed,
		why: "ErrGone tells the core to open a new session; a claim in a closed one would never be beaten."},
	{name: "closing an old session leaves the claim in the new one", law: 14, run: closeOld,
		why: "A session was given up, its claim entered again with the next Try in a new one, and only then is the old one closed."},
	{name: "closing a session twice is once", law: 14, run: closeTwice,
		why: "The reply to Close was lost; the second must not end what began since."},
	{name: "closing an engine ends no other engine's claims", law: 14, run: closeEngine,
		why: "Two processes use one store; one ends."},
	{name: "there is no goroutine per held claim", law: 9, run: noGoroutinePerClaim,
		why: "A hundred held claims cost a hundred places in a store, not a hundred goroutines."},
}

func closeSession(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), named(s.claim(), s.name+"/b")
	a.hold(ca)
	b.hold(cb)
	if s.can.Queue {
		a.stand(named(s.claim(), cb.Name))
		b.stand(s.claim())
	}
	a.shut()
	if s.can.Queue {
		got := s.line()
		if len(got) != 2 || got[0].Session != b.id || got[1].Session != b.id {
			s.Fatalf("a session was closed; listed are\n%s", showEntries(got))
		}
	} else {
		b.hold(s.claim())
	}
	if out := b.beat(cb); out[0].Gone {
		s.Errorf("a claim went with another session")
	}
}

func closeAmongDead(s *stage) {
	dead, a, b := s.joinFor(max(s.ttl, 2*time.Second)), s.join(), s.join() // so that all stand in line before its time is over
	c1, c2, c3, c4 := s.claim(), s.claim(), s.claim(), s.claim()
	dead.hold(c1)
	a.stand(c2)
	last := b.stand(c3)
	a.stand(c4)
	dead.die()
	time.Sleep(dead.TTL() + dead.TTL()/10) // nobody looks, so an engine may not have noticed
	a.shut()
	if _, err := b.until(s.ctx, c3, last); err != nil {
		s.Fatalf("Await after the session ahead was closed: %v", err)
	}
	s.expectLine("one died, one was closed", c3)
}

func enterClosed(s *stage) {
	a, b := s.join(), s.join()
	c := s.claim()
	a.hold(c)
	a.shut()
	if st, err := a.Enter(s.ctx, s.claim()); !errors.Is(err, driver.ErrGone) {
		s.Errorf("Enter in a closed session: %+v, %v, not ErrGone", st, err)
	}
	if err := a.Beat(s.ctx, []driver.Claim{c}, make([]driver.Standing, 1)); !errors.Is(err, driver.ErrGone) {
		s.Errorf("Beat of a closed session: %v, not ErrGone", err)
	}
	s.expectLine("the session was closed")
	b.hold(s.claim())
}

func closeOld(s *stage) {
	old := s.join()
	c := s.claim()
	old.hold(c)
	fresh := s.join()
	c = next(c)
	held := fresh.hold(c)
	old.shut()
	s.expectLine("the claim moved to a new session", c)
	if out := fresh.beat(c); out[0].Gone {
		s.Errorf("the claim went with the old session")
	}
	if again := fresh.hold(c); again.Token != held.Token {
		s.Errorf("token %d became %d when the old session was closed", held.Token, again.Token)
	}
}

func closeTwice(s *stage) {
	a, b := s.join(), s.join()
	a.hold(s.claim())
	a.shut()
	c := s.claim()
	b.hold(c)
	if err := a.Close(s.ctx); err != nil && !errors.Is(err, driver.ErrGone) {
		s.Errorf("closing a session twice: %v", err)
	}
	s.expectLine("A was closed twice", c)
}

// closeEngine needs a second engine to mean something; without one it only
// shows that an engine with live claims can be closed.
func closeEngine(s *stage) {
	if s.peer == nil {
		s.join().hold(s.claim())
		return
	}
	third := s.h.Peer(s.T, s.store)
	if err := third.Close(); err != nil { // the same engine with nothing in it
		s.Fatalf("closing an engine: %v", err)
	}
	a := s.join()
	c := s.claim()
	held := a.hold(c)
	third = s.h.Peer(s.T, s.store)
	p, err := third.Open(s.ctx, driver.SessionOptions{ID: newID(), TTL: s.ttl})
	if err != nil {
		s.Fatalf("Open: %v", err)
	}
	if st, err := p.Enter(s.ctx, tries(s.claim())); err != nil || st.Held {
		s.Fatalf("Enter from another engine: %+v, %v", st, err)
	}
	if err := errors.Join(p.Close(s.ctx), third.Close()); err != nil {
		s.Fatalf("closing an engine: %v", err)
	}
	if out := a.beat(c); out[0].Gone {
		s.Errorf("a claim went with another engine")
	}
	if again := a.hold(c); again.Token != held.Token {
		s.Errorf("token %d became %d when another engine was closed", held.Token, again.Token)
	}
}

// noGoroutinePerClaim allows for ten: a pool may grow, but not with the claims.
func noGoroutinePerClaim(s *stage) {
	a := s.join()
	for i := range 10 {
		a.hold(named(s.claim(), fmt.Sprintf("%s/few/%d", s.name, i)))
	}
	_, before := goroutines(s.label, s.h.Stays)
	for i := range 100 {
		a.hold(named(s.claim(), fmt.Sprintf("%s/many/%d", s.name, i)))
	}
	stacks, after := goroutines(s.label, s.h.Stays)
	for began := time.Now(); after > before+10 && time.Since(began) < fading; time.Sleep(restLook) {
		stacks, after = goroutines(s.label, s.h.Stays) // a call that is no longer waited for may still be under way
	}
	if after > before+10 {
		s.Errorf("%d goroutines with 10 claims held, %d with 110:\n%s", before, after, stacks)
	}
}
