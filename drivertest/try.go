package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// tryCases send calls that arrive after a later Try of the same claim.
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

func lateLeave(f *fixture) {
	a, b := f.open(), f.open()
	one := f.claim()
	a.mustHold(one)
	a.mustLeave(one)
	two := nextTry(one)
	held := a.mustHold(two)
	a.mustLeaveNothing(one)
	b.mustNotHold(f.claim())
	f.expectLine("try 1 was left late", two)
	if again := a.mustHold(two); again.Token != held.Token {
		f.Errorf("try 2 had token %d and has %d after a late Leave of try 1", held.Token, again.Token)
	}
	a.mustLeave(two)
	b.mustHold(f.claim())
}

func lateLeaveWaiting(f *fixture) {
	a, b := f.open(), f.open()
	ca, one := f.claim(), f.claim()
	a.mustHold(ca)
	b.mustWait(one)
	b.mustLeave(one)
	two := nextTry(one)
	st := b.mustWait(two)
	b.mustLeaveNothing(one)
	f.expectLine("a waiter's try 1 was left late", ca, two)
	a.mustLeave(ca)
	b.mustGetTurn(two, st)
}

func lateEnter(f *fixture) {
	a, b := f.open(), f.open()
	one := f.claim()
	two := nextTry(one)
	held := a.mustHold(two)
	expectNotHeld(a, one)
	f.expectLine("try 1 entered late", two)
	if again := a.mustHold(two); again.Token != held.Token {
		f.Errorf("try 2 had token %d and has %d after a late Enter of try 1", held.Token, again.Token)
	}
	b.mustNotHold(f.claim())
	a.mustLeave(two)
	b.mustHold(f.claim())
}

func lateEnterWaiting(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, one, cc := f.claim(), f.claim(), f.claim()
	two := nextTry(one)
	a.mustHold(ca)
	st := b.mustWait(two)
	c.mustWait(cc)
	expectNotHeld(b, one)
	f.expectLine("a waiter's try 1 entered late", ca, two, cc)
	a.mustLeave(ca)
	b.mustGetTurn(two, st)
}

// expectNotHeld enters an outdated Try. Nobody reads the answer to such a call, so
// any answer but held is accepted.
func expectNotHeld(s *session, c driver.Claim) {
	s.f.Helper()
	st, err := s.tryEnter(s.f.ctx, c)
	if err != nil && !errors.Is(err, driver.ErrGone) {
		s.f.Fatalf("Enter of a lower Try: %v", err)
	}
	if st.Held {
		s.f.Fatalf("Enter of a lower Try says held: %+v", st)
	}
}

func higherTry(f *fixture) {
	a, b := f.open(), f.open()
	one := f.claim()
	first := a.mustHold(one)
	two := nextTry(one)
	second := a.mustHold(two)
	if f.can.Fencing != driver.None && second.Token == first.Token {
		f.Errorf("try 2 has try 1's token %d: a new grant must have a new one", first.Token)
	}
	f.expectLine("try 2 came without a Leave of try 1", two)
	b.mustNotHold(f.claim())
	a.mustLeave(two)
	b.mustHold(f.claim())
}

func enterAfterLeave(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	first := a.mustHold(ca)
	if !f.can.Queue {
		a.mustLeave(ca)
		expectFresh(f, ca, first, a.mustHold(nextTry(ca)))
		return
	}
	wait := b.mustWait(cb)
	a.mustLeave(ca)
	last := a.mustWait(nextTry(ca))
	f.expectLine("A left and came again", cb, nextTry(ca))
	b.mustGetTurn(cb, wait)
	b.mustLeave(cb)
	expectFresh(f, ca, first, a.mustGetTurn(nextTry(ca), last))
}

func expectFresh(f *fixture, c driver.Claim, first, second driver.Standing) {
	f.Helper()
	if f.can.Fencing == driver.None {
		return
	}
	if second.Token == first.Token || c.Exclusive() && second.Token < first.Token {
		f.Errorf("token %d after %d: a later grant needs a later token", second.Token, first.Token)
	}
}

func beatOfLowerTry(f *fixture) {
	a := f.open()
	one := f.claim()
	a.mustHold(one)
	a.mustLeave(one)
	two := nextTry(one)
	a.mustHold(two)
	out := a.mustBeat(one, two)
	if !out[0].Gone {
		f.Errorf("Beat says %+v of try 1, which was left", out[0])
	}
	if out[1].Gone {
		f.Errorf("Beat says that try 2 is gone")
	}
	f.expectLine("try 1 was beaten late", two)
}
