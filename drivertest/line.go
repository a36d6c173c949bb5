package drivertest

import (
	"github.com/pawl-go/pawl/driver"
)

// lineCases check the order in which claims are held.
var lineCases = []lawCase{
	{name: "first come, first held", law: 2, needs: needs{queue: true}, run: firstComeFirstHeld,
		why: "Five wait; each Leave admits the first of them and no other."},
	{name: "a waiter that leaves lets up those behind it", law: 2, needs: needs{queue: true}, run: waiterLeaves,
		why: "B and C wait, B gives up, A leaves: C holds."},
	{name: "a claim that does not queue comes last", law: 2, needs: needs{queue: true}, run: tryComesLast,
		why: "A leaves while B waits and C tries again and again: C must not slip in between A and B."},
	{name: "a claim that does not queue leaves no trace", law: 5, run: noTrace,
		why: "Twenty attempts while A holds: they are not in line, and the first attempt after A's Leave holds."},
	{name: "a turn that came before Await is seen at once", law: 6, needs: needs{queue: true}, run: turnBeforeAwait,
		why: "A leaves between B's Enter and B's Await: the notice was sent before B was listening."},
	{name: "Await of an unknown claim says gone", law: 10, needs: needs{queue: true}, run: awaitUnknown,
		why: "A waiter whose place was ended must not wait for ever."},
}

func firstComeFirstHeld(f *fixture) {
	const n = 6
	var (
		sessions [n]*session
		cs       [n]driver.Claim
		st       [n]driver.Standing
	)
	for i := range n {
		sessions[i], cs[i] = f.open(), f.claim()
		if i == 0 {
			sessions[i].mustHold(cs[i])
			continue
		}
		st[i] = sessions[i].mustWait(cs[i])
		if ahead := st[i].Ahead - min(f.claimKind.taken, 1); st[i].Ahead >= 0 && ahead != i {
			f.Errorf("Ahead is %d with %d claims ahead", ahead, i)
		}
	}
	f.expectLine("all have entered", cs[:]...)
	for i := range n - 1 {
		sessions[i].mustLeave(cs[i])
		sessions[i+1].mustGetTurn(cs[i+1], st[i+1])
		for j := i + 2; j < n; j++ {
			sessions[j].mustWait(cs[j])
		}
		f.expectLine("one has left", cs[i+1:]...)
	}
}

func waiterLeaves(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	b.mustWait(cb)
	st := c.mustWait(cc)
	b.mustLeave(cb)
	f.expectLine("B gave up", ca, cc)
	c.mustWait(cc)
	a.mustLeave(ca)
	c.mustGetTurn(cc, st)
}

func tryComesLast(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	st := b.mustWait(cb)
	c.mustNotHold(cc)
	a.mustLeave(ca)
	c.mustNotHold(nextTry(cc))
	b.mustGetTurn(cb, st)
	c.mustNotHold(nextTry(nextTry(cc)))
	f.expectLine("C only tried", cb)
}

func noTrace(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	for range 20 {
		b.mustNotHold(cb)
		cb = nextTry(cb)
	}
	f.expectLine("B only tried", ca)
	b.mustLeaveNothing(cb)
	if out := b.mustBeat(cb); !out[0].Gone {
		f.Errorf("Beat knows a claim that only tried: %+v", out[0])
	}
	a.mustLeave(ca)
	f.expectLine("A left and B only tried")
	a.mustHold(withoutQueue(nextTry(ca)))
}

func turnBeforeAwait(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	st := b.mustWait(cb)
	a.mustLeave(ca)
	held := b.mustGetTurn(cb, st)
	again := b.mustGetTurn(cb, driver.Standing{Pause: st.Pause, Ahead: st.Ahead})
	if held.Token != again.Token {
		f.Errorf("Await answers token %d, then %d", held.Token, again.Token)
	}
}

func awaitUnknown(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	b.mustLeave(cb)
	f.promptly("Await of a claim that was left", func() {
		var st driver.Standing
		err := b.retryLostReply(f.ctx, func() (err error) {
			st, err = b.Await(f.ctx, cb, last)
			return err
		})
		if err != nil {
			f.Fatalf("Await of a claim that was left: %v, not Gone", err)
		}
		if st.Held || !st.Gone {
			f.Fatalf("Await of a claim that was left: %+v, not Gone", st)
		}
	})
}
