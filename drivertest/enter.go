package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// enterCases are about asking, asking again and giving back.
var enterCases = []lawCase{
	{name: "one holds it at a time", law: 2, run: oneAtATime,
		why: "A holds, B is denied; A leaves, B holds and A is denied."},
	{name: "a repeated Enter of a holder answers the same", law: 1, run: repeatedEnterHolder,
		why: "The reply to Enter was lost and the core asks again: it must not get in its own way, nor get another token."},
	{name: "a repeated Enter of a waiter keeps its place", law: 1, needs: needs{queue: true}, run: repeatedEnterWaiter,
		why: "B and C wait; B's Enter is repeated: it stands where it stood, once."},
	{name: "a repeated Enter prolongs as the first did", law: 1, run: repeatedEnterProlongs,
		why: "The core counts a deadline from the repeated Enter, so the store must too: A enters, enters again at half its TTL, and is still there when the first would have ended."},
	{name: "a repeated Leave does nothing more", law: 1, run: repeatedLeave,
		why: "A's Leave was carried out, B holds, and A's Leave comes again: B still holds."},
	{name: "a late Enter can be left again", law: 1, run: lateEnterSameTry,
		why: "Enter is delayed in the network, Leave overtakes it and finds nothing, then Enter lands: the core repeats Leave, which must end what landed."},
}

// oneAtATime also shows that Leave frees at once, for those who only try.
func oneAtATime(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	if h := b.denied(cb).Holder; h != nil && h.ID != ca.ID && h.ID != s.filler {
		s.Errorf("%+v is said to be in the way; %s is", h, ca.ID)
	}
	a.leave(ca)
	b.hold(tries(next(cb)))
	a.denied(next(ca))
	b.leave(next(cb))
	a.hold(tries(next(next(ca))))
}

func repeatedEnterHolder(s *stage) {
	a, b := s.join(), s.join()
	c := s.claim()
	first := a.hold(c)
	for range 3 {
		again := a.hold(c)
		if again.Token != first.Token {
			s.Errorf("the token was %d and is %d after Enter was repeated", first.Token, again.Token)
		}
	}
	s.expectLine("Enter was repeated", c)
	b.denied(s.claim())
	a.leave(c)
	b.hold(s.claim())
}

func repeatedEnterWaiter(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	b.stand(cb)
	c.stand(cc)
	b.stand(cb)
	s.expectLine("a waiter's Enter was repeated", ca, cb, cc)
	st := b.stand(cb)
	if ahead := st.Ahead - min(s.kind.taken, 1); st.Ahead >= 0 && ahead != 1 {
		s.Errorf("Ahead is %d with one claim ahead", ahead)
	}
	a.leave(ca)
	b.turn(cb, st)
	b.leave(cb)
	c.turn(cc, driver.Standing{})
}

// repeatedEnterProlongs judges only what was answered before the promise ran
// out, so that a stalled machine cannot make it fail.
func repeatedEnterProlongs(s *stage) {
	a, b := s.joinBriefly(), s.join()
	c := s.claim()
	first := a.hold(c)
	answered := time.Now()
	time.Sleep(a.TTL() / 2)
	sent := time.Now()
	second, err := a.ask(s.ctx, c)
	if errors.Is(err, driver.ErrGone) && time.Since(a.opened) > a.TTL() {
		return // stalled beyond the TTL
	}
	if err != nil {
		s.Fatalf("Enter, repeated: %v", err)
	}
	if first.Valid > 0 && second.Held && second.Valid < first.Valid*9/10 {
		s.Errorf("the first Enter promised %v, the repeated one %v", first.Valid, second.Valid)
	}
	if !second.Held || second.Valid == 0 {
		return // stalled beyond the TTL, or the session's beat is what prolongs
	}
	time.Sleep(time.Until(answered.Add(a.TTL() + a.TTL()/4)))
	st := b.enter(tries(s.claim()))
	if st.Held && time.Now().Before(sent.Add(second.Valid)) {
		s.Errorf("another holds it %v after a repeated Enter that promised %v", time.Since(sent), second.Valid)
	}
}

func repeatedLeave(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	if s.can.Queue {
		st := b.stand(cb)
		a.leave(ca)
		b.turn(cb, st)
	} else {
		a.leave(ca)
		b.hold(cb)
	}
	for range 2 {
		a.leaveNothing(ca)
	}
	s.expectLine("A left three times", cb)
	a.denied(next(ca))
	if out := b.beat(cb); out[0].Gone {
		s.Errorf("B's claim is gone after A's repeated Leave")
	}
	b.leave(cb)
}

// lateEnterSameTry leaves open whether the late Enter lands or is refused.
func lateEnterSameTry(s *stage) {
	a, b := s.join(), s.join()
	c := s.claim()
	a.leaveNothing(c)
	st := a.enter(c)
	err := a.quit(s.ctx, c)
	if st.Held && err != nil {
		s.Fatalf("Leave of a claim whose Enter came late: %v", err)
	}
	s.expectLine("Enter came late and was left")
	b.hold(s.claim())
}
