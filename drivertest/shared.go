package drivertest

import "github.com/pawl-go/pawl/driver"

// sharedCases are about claims that hold beside each other.
var sharedCases = []lawCase{
	{name: "readers hold beside each other and keep a writer out", law: 2, needs: needs{shared: true}, run: readersBeside,
		why: "Two readers hold, a writer is denied until both have left."},
	{name: "a writer keeps everybody out", law: 2, needs: needs{shared: true}, run: writerAlone,
		why: "A writer holds: no reader, no second writer."},
	{name: "a waiting writer is not starved by readers", law: 2, needs: needs{queue: true, shared: true}, run: writerNotStarved,
		why: "One reader holds, a writer waits, readers keep coming: those behind the writer wait too, also those who only try."},
	{name: "a semaphore never gives more than it has", law: 2, needs: needs{count: true}, run: semaphoreSum,
		why: "2 and 2 of 3 are too many, though each fits beside one unit."},
	{name: "a large claim is not starved by small ones", law: 2, needs: needs{queue: true, count: true}, run: largeNotStarved,
		why: "2 of 3 are held, one wants 2, then another 1: one unit is free, but the 1 came later."},
	{name: "any departure may make room", law: 6, needs: needs{queue: true, count: true}, run: sumInTheWay,
		why: "Three hold 1 of 3 and one wants 2: no single claim is in its way, and the turn comes with the second Leave, whoever leaves."},
	{name: "a claim that only tries takes free units", law: 2, needs: needs{count: true}, run: tryTakesFree,
		why: "With nobody waiting, free units are given at once."},
}

func readersBeside(s *stage) {
	a, b, w := s.join(), s.join(), s.join()
	ra, rb, cw := s.reader(), s.reader(), s.writer()
	a.hold(ra)
	b.hold(rb)
	w.denied(cw)
	a.leave(ra)
	w.denied(next(cw))
	b.leave(rb)
	w.hold(tries(next(next(cw))))
}

func writerAlone(s *stage) {
	w, r := s.join(), s.join()
	cw := s.writer()
	w.hold(cw)
	r.denied(s.reader())
	r.denied(s.writer())
	w.leave(cw)
	r.hold(s.reader())
	r.hold(s.reader())
}

func writerNotStarved(s *stage) {
	r, w, l := s.join(), s.join(), s.join()
	r1, cw, r2, r3 := s.reader(), s.writer(), s.reader(), s.reader()
	r.hold(r1)
	wait := w.stand(cw)
	late := l.stand(r2)
	l.denied(r3)
	s.expectLine("a reader, a writer, a reader", r1, cw, r2)
	r.leave(r1)
	w.turn(cw, wait)
	l.denied(next(r3))
	w.leave(cw)
	l.turn(r2, late)
	l.hold(tries(next(next(r3))))
}

func semaphoreSum(s *stage) {
	a, b := s.join(), s.join()
	two, other, one, more := s.claimOf(2, 3), s.claimOf(2, 3), s.claimOf(1, 3), s.claimOf(1, 3)
	a.hold(two)
	b.denied(other)
	b.hold(one)
	b.denied(more)
	a.leave(two)
	b.hold(tries(next(other)))
	b.denied(next(more))
}

func largeNotStarved(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	first, large, small, try := s.claimOf(2, 3), s.claimOf(2, 3), s.claimOf(1, 3), s.claimOf(1, 3)
	a.hold(first)
	waitLarge := b.stand(large)
	waitSmall := c.stand(small)
	c.denied(try)
	a.leave(first)
	b.turn(large, waitLarge)
	c.turn(small, waitSmall)
	s.expectLine("the first left", large, small)
}

// sumInTheWay lets the claim in the middle leave last, so that an engine that
// watches only one of those ahead is found out.
func sumInTheWay(s *stage) {
	for stays := range 3 {
		a, b := s.join(), s.join()
		var ones [3]driver.Claim
		for i := range ones {
			ones[i] = s.claimOf(1, 3)
			a.hold(ones[i])
		}
		two := s.claimOf(2, 3)
		last := b.stand(two)
		k := s.start(func() error {
			_, err := b.until(s.ctx, two, last)
			return err
		})
		for i := range ones {
			if i != stays {
				a.leave(ones[i])
			}
		}
		s.promptly("a handoff after two of three have left", func() { k.wait("Await") })
		b.leave(two)
		a.leave(ones[stays])
	}
}

func tryTakesFree(s *stage) {
	a := s.join()
	for range 3 {
		a.hold(tries(s.claimOf(1, 3)))
	}
	a.denied(s.claimOf(1, 3))
	if n := len(s.line()); n != 3 {
		s.Errorf("%d claims are listed, 3 hold", n)
	}
}
