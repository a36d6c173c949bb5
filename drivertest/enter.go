package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// enterCases enter, repeat the Enter, and leave.
var enterCases = []lawCase{
	{name: "one holds it at a time", law: 2, run: oneAtATime,
		why: "A holds, B is denied; A leaves, B holds and A is denied."},
	{name: "a repeated Enter of a holder answers the same", law: 1, run: repeatedEnterHolder,
		why: "The reply to Enter was lost and the core asks again: the claim must not block itself or get another token."},
	{name: "a repeated Enter of a waiter keeps its place", law: 1, needs: needs{queue: true}, run: repeatedEnterWaiter,
		why: "B and C wait; B's Enter is repeated: B keeps its place and is listed once."},
	{name: "a repeated Enter prolongs as the first did", law: 1, run: repeatedEnterProlongs,
		why: "The core counts a deadline from the repeated Enter, so the store must too: A enters, enters again at half its TTL, and is still there when the first would have ended."},
	{name: "a repeated Leave does nothing more", law: 1, run: repeatedLeave,
		why: "A's Leave was carried out, B holds, and A's Leave comes again: B still holds."},
	{name: "a late Enter can be left again", law: 1, run: lateEnterSameTry,
		why: "Enter is delayed in the network, Leave overtakes it and finds nothing, then Enter arrives: the core repeats Leave, which must end the late claim."},
}

// oneAtATime also checks that the name is free for claims that do not queue right
// after Leave.
func oneAtATime(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	if h := b.mustNotHold(cb).Holder; h != nil && h.ID != ca.ID && h.ID != f.filler {
		f.Errorf("%+v is said to be in the way; %s is", h, ca.ID)
	}
	a.mustLeave(ca)
	b.mustHold(withoutQueue(nextTry(cb)))
	a.mustNotHold(nextTry(ca))
	b.mustLeave(nextTry(cb))
	a.mustHold(withoutQueue(nextTry(nextTry(ca))))
}

func repeatedEnterHolder(f *fixture) {
	a, b := f.open(), f.open()
	c := f.claim()
	first := a.mustHold(c)
	for range 3 {
		again := a.mustHold(c)
		if again.Token != first.Token {
			f.Errorf("the token was %d and is %d after Enter was repeated", first.Token, again.Token)
		}
	}
	f.expectLine("Enter was repeated", c)
	b.mustNotHold(f.claim())
	a.mustLeave(c)
	b.mustHold(f.claim())
}

func repeatedEnterWaiter(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	b.mustWait(cb)
	c.mustWait(cc)
	b.mustWait(cb)
	f.expectLine("a waiter's Enter was repeated", ca, cb, cc)
	st := b.mustWait(cb)
	if ahead := st.Ahead - min(f.claimKind.taken, 1); st.Ahead >= 0 && ahead != 1 {
		f.Errorf("Ahead is %d with one claim ahead", ahead)
	}
	a.mustLeave(ca)
	b.mustGetTurn(cb, st)
	b.mustLeave(cb)
	c.mustGetTurn(cc, driver.Standing{})
}

// repeatedEnterProlongs only judges answers that arrived before the promised
// expiry, so that a stalled machine cannot fail it.
func repeatedEnterProlongs(f *fixture) {
	a, b := f.openShort(), f.open()
	c := f.claim()
	first := a.mustHold(c)
	answered := time.Now()
	time.Sleep(a.TTL() / 2)
	sent := time.Now()
	second, err := a.tryEnter(f.ctx, c)
	if errors.Is(err, driver.ErrGone) && time.Since(a.opened) > a.TTL() {
		return // the machine stalled for longer than the TTL
	}
	if err != nil {
		f.Fatalf("Enter, repeated: %v", err)
	}
	if first.Valid > 0 && second.Held && second.Valid < first.Valid*9/10 {
		f.Errorf("the first Enter promised %v, the repeated one %v", first.Valid, second.Valid)
	}
	if !second.Held || second.Valid == 0 {
		return // the machine stalled for longer than the TTL, or only Beat prolongs
	}
	time.Sleep(time.Until(answered.Add(a.TTL() + a.TTL()/4)))
	st := b.mustEnter(withoutQueue(f.claim()))
	if st.Held && time.Now().Before(sent.Add(second.Valid)) {
		f.Errorf("another holds it %v after a repeated Enter that promised %v", time.Since(sent), second.Valid)
	}
}

func repeatedLeave(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	if f.can.Queue {
		st := b.mustWait(cb)
		a.mustLeave(ca)
		b.mustGetTurn(cb, st)
	} else {
		a.mustLeave(ca)
		b.mustHold(cb)
	}
	for range 2 {
		a.mustLeaveNothing(ca)
	}
	f.expectLine("A left three times", cb)
	a.mustNotHold(nextTry(ca))
	if out := b.mustBeat(cb); out[0].Gone {
		f.Errorf("B's claim is gone after A's repeated Leave")
	}
	b.mustLeave(cb)
}

// lateEnterSameTry accepts both outcomes: the late Enter is carried out or refused.
func lateEnterSameTry(f *fixture) {
	a, b := f.open(), f.open()
	c := f.claim()
	a.mustLeaveNothing(c)
	st := a.mustEnter(c)
	err := a.tryLeave(f.ctx, c)
	if st.Held && err != nil {
		f.Fatalf("Leave of a claim whose Enter came late: %v", err)
	}
	f.expectLine("Enter came late and was left")
	b.mustHold(f.claim())
}
