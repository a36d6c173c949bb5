package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// tryCases are about calls that arrive late, after a later one of the same claim.
var tryCases = []lawCase{
	{name: "a late Leave of an earlier Try ends nothing", law: 14, run: lateLeave,
		why: "Leave of try 1 is stalled in the network, try 2 holds, the Leave arrives: with it a rival would hold beside try 2."},
	{name: "a late Leave of an earlier Try keeps a waiter's place", law: 14, needs: needs{queue: true}, run: lateLeaveWaiting,
		why: "Leave of try 1 arrives when try 2 waits in the line: it still waits, and still gets its turn."},
	{name: "a late Enter of a lower Try changes nothing", law: 14, run: lateEnter,
		why: "Enter of try 1 was given up and arrives after try 2 was granted: try 2 still holds, with its token."},
	{name: "a late Enter of a lower Try keeps a waiter's place", law: 14, needs: needs{queue: true}, run: lateEnterWaiting,
		why: "Enter of try 1 arrives when try 2 waits: try 2 still waits, once, and gets its turn."},
	{name: "a higher Try replaces the lower", law: 14, run: higherTry,
		why: "The Leave of try 1 was lost; try 2 must not find itself in its own way, and only one of them may be listed."},
	{name: "entering after leaving is a new claim", law: 3, run: enterAfterLeave,
		why: "A leaves and enters again with the next Try: it stands behind those who came before, and its token is a new one."},
	{name: "a late Beat of an earlier Try does not answer for a later one", law: 14, run: beatOfLowerTry,
		why: "A beat for try 1 that is answered with try 2's standing makes the core believe in a grant that has ended."},
}

func lateLeave(s *stage) {
	a, b := s.join(), s.join()
	one := s.claim()
	a.hold(one)
	a.leave(one)
	two := next(one)
	held := a.hold(two)
	a.leaveNothing(one)
	b.denied(s.claim())
	s.expectLine("try 1 was left late", two)
	if again := a.hold(two); again.Token != held.Token {
		s.Errorf("try 2 had token %d and has %d after a late Leave of try 1", held.Token, again.Token)
	}
	a.leave(two)
	b.hold(s.claim())
}

func lateLeaveWaiting(s *stage) {
	a, b := s.join(), s.join()
	ca, one := s.claim(), s.claim()
	a.hold(ca)
	b.stand(one)
	b.leave(one)
	two := next(one)
	st := b.stand(two)
	b.leaveNothing(one)
	s.expectLine("a waiter's try 1 was left late", ca, two)
	a.leave(ca)
	b.turn(two, st)
}

func lateEnter(s *stage) {
	a, b := s.join(), s.join()
	one := s.claim()
	two := next(one)
	held := a.hold(two)
	expectNotHeld(a, one)
	s.expectLine("try 1 entered late", two)
	if again := a.hold(two); again.Token != held.Token {
		s.Errorf("try 2 had token %d and has %d after a late Enter of try 1", held.Token, again.Token)
	}
	b.denied(s.claim())
	a.leave(two)
	b.hold(s.claim())
}

func lateEnterWaiting(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, one, cc := s.claim(), s.claim(), s.claim()
	two := next(one)
	a.hold(ca)
	st := b.stand(two)
	c.stand(cc)
	expectNotHeld(b, one)
	s.expectLine("a waiter's try 1 entered late", ca, two, cc)
	a.leave(ca)
	b.turn(two, st)
}

// expectNotHeld enters a Try that is over. Nobody reads the answer to such a
// call, so all that is asked is that it does not say held.
func expectNotHeld(p *player, c driver.Claim) {
	p.s.Helper()
	st, err := p.ask(p.s.ctx, c)
	if err != nil && !errors.Is(err, driver.ErrGone) {
		p.s.Fatalf("Enter of a lower Try: %v", err)
	}
	if st.Held {
		p.s.Fatalf("Enter of a lower Try says held: %+v", st)
	}
}

func higherTry(s *stage) {
	a, b := s.join(), s.join()
	one := s.claim()
	first := a.hold(one)
	two := next(one)
	second := a.hold(two)
	if s.can.Fencing != driver.None && second.Token == first.Token {
		s.Errorf("try 2 has try 1's token %d: a new grant must have a new one", first.Token)
	}
	s.expectLine("try 2 came without a Leave of try 1", two)
	b.denied(s.claim())
	a.leave(two)
	b.hold(s.claim())
}

func enterAfterLeave(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	first := a.hold(ca)
	if !s.can.Queue {
		a.leave(ca)
		expectFresh(s, ca, first, a.hold(next(ca)))
		return
	}
	wait := b.stand(cb)
	a.leave(ca)
	last := a.stand(next(ca))
	s.expectLine("A left and came again", cb, next(ca))
	b.turn(cb, wait)
	b.leave(cb)
	expectFresh(s, ca, first, a.turn(next(ca), last))
}

func expectFresh(s *stage, c driver.Claim, first, second driver.Standing) {
	s.Helper()
	if s.can.Fencing == driver.None {
		return
	}
	if second.Token == first.Token || c.Exclusive() && second.Token < first.Token {
		s.Errorf("token %d after %d: a later grant needs a later token", second.Token, first.Token)
	}
}

func beatOfLowerTry(s *stage) {
	a := s.join()
	one := s.claim()
	a.hold(one)
	a.leave(one)
	two := next(one)
	a.hold(two)
	out := a.beat(one, two)
	if !out[0].Gone {
		s.Errorf("Beat says %+v of try 1, which was left", out[0])
	}
	if out[1].Gone {
		s.Errorf("Beat says that try 2 is gone")
	}
	s.expectLine("try 1 was beaten late", two)
}
