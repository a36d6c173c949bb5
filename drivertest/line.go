package drivertest

import (
	"github.com/pawl-go/pawl/driver"
)

// lineCases are about the order in which claims are held.
var lineCases = []lawCase{
	{name: "first come, first held", law: 2, needs: needs{queue: true}, run: firstComeFirstHeld,
		why: "Five wait; each Leave lets in the one that came first, and nobody else."},
	{name: "a waiter that leaves lets up those behind it", law: 2, needs: needs{queue: true}, run: waiterLeaves,
		why: "B and C wait, B gives up, A leaves: C holds."},
	{name: "a claim that does not queue comes last", law: 2, needs: needs{queue: true}, run: tryComesLast,
		why: "A leaves while B waits and C tries again and again: C must not slip in between A and B."},
	{name: "a claim that does not queue leaves no trace", law: 5, run: noTrace,
		why: "Twenty attempts while A holds: they are not in line, and the first attempt after A's Leave holds."},
	{name: "a turn that came before Await is seen at once", law: 6, needs: needs{queue: true}, run: turnBeforeAwait,
		why: "A leaves between B's Enter and B's Await: a notice was sent when nobody listened."},
	{name: "Await of an unknown claim says gone", law: 10, needs: needs{queue: true}, run: awaitUnknown,
		why: "A waiter whose place was ended must not wait for ever."},
}

func firstComeFirstHeld(s *stage) {
	const n = 6
	var (
		ps [n]*player
		cs [n]driver.Claim
		st [n]driver.Standing
	)
	for i := range n {
		ps[i], cs[i] = s.join(), s.claim()
		if i == 0 {
			ps[i].hold(cs[i])
			continue
		}
		st[i] = ps[i].stand(cs[i])
		if ahead := st[i].Ahead - min(s.kind.taken, 1); st[i].Ahead >= 0 && ahead != i {
			s.Errorf("Ahead is %d with %d claims ahead", ahead, i)
		}
	}
	s.expectLine("all have entered", cs[:]...)
	for i := range n - 1 {
		ps[i].leave(cs[i])
		ps[i+1].turn(cs[i+1], st[i+1])
		for j := i + 2; j < n; j++ {
			ps[j].stand(cs[j])
		}
		s.expectLine("one has left", cs[i+1:]...)
	}
}

func waiterLeaves(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	b.stand(cb)
	st := c.stand(cc)
	b.leave(cb)
	s.expectLine("B gave up", ca, cc)
	c.stand(cc)
	a.leave(ca)
	c.turn(cc, st)
}

func tryComesLast(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	st := b.stand(cb)
	c.denied(cc)
	a.leave(ca)
	c.denied(next(cc))
	b.turn(cb, st)
	c.denied(next(next(cc)))
	s.expectLine("C only tried", cb)
}

func noTrace(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	for range 20 {
		b.denied(cb)
		cb = next(cb)
	}
	s.expectLine("B only tried", ca)
	b.leaveNothing(cb)
	if out := b.beat(cb); !out[0].Gone {
		s.Errorf("Beat knows a claim that only tried: %+v", out[0])
	}
	a.leave(ca)
	s.expectLine("A left and B only tried")
	a.hold(tries(next(ca)))
}

func turnBeforeAwait(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	st := b.stand(cb)
	a.leave(ca)
	held := b.turn(cb, st)
	again := b.turn(cb, driver.Standing{Pause: st.Pause, Ahead: st.Ahead})
	if held.Token != again.Token {
		s.Errorf("Await answers token %d, then %d", held.Token, again.Token)
	}
}

func awaitUnknown(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	b.leave(cb)
	s.promptly("Await of a claim that was left", func() {
		var st driver.Standing
		err := b.again(s.ctx, func() (err error) {
			st, err = b.Await(s.ctx, cb, last)
			return err
		})
		if err != nil {
			s.Fatalf("Await of a claim that was left: %v, not Gone", err)
		}
		if st.Held || !st.Gone {
			s.Fatalf("Await of a claim that was left: %+v, not Gone", st)
		}
	})
}
