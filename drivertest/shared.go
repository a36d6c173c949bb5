package drivertest

import "github.com/pawl-go/pawl/driver"

// sharedCases enter claims that can be held at the same time.
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

func readersBeside(f *fixture) {
	a, b, w := f.open(), f.open(), f.open()
	ra, rb, cw := f.reader(), f.reader(), f.writer()
	a.mustHold(ra)
	b.mustHold(rb)
	w.mustNotHold(cw)
	a.mustLeave(ra)
	w.mustNotHold(nextTry(cw))
	b.mustLeave(rb)
	w.mustHold(withoutQueue(nextTry(nextTry(cw))))
}

func writerAlone(f *fixture) {
	w, r := f.open(), f.open()
	cw := f.writer()
	w.mustHold(cw)
	r.mustNotHold(f.reader())
	r.mustNotHold(f.writer())
	w.mustLeave(cw)
	r.mustHold(f.reader())
	r.mustHold(f.reader())
}

func writerNotStarved(f *fixture) {
	r, w, l := f.open(), f.open(), f.open()
	r1, cw, r2, r3 := f.reader(), f.writer(), f.reader(), f.reader()
	r.mustHold(r1)
	wait := w.mustWait(cw)
	late := l.mustWait(r2)
	l.mustNotHold(r3)
	f.expectLine("a reader, a writer, a reader", r1, cw, r2)
	r.mustLeave(r1)
	w.mustGetTurn(cw, wait)
	l.mustNotHold(nextTry(r3))
	w.mustLeave(cw)
	l.mustGetTurn(r2, late)
	l.mustHold(withoutQueue(nextTry(nextTry(r3))))
}

func semaphoreSum(f *fixture) {
	a, b := f.open(), f.open()
	two, other, one, more := f.claimOf(2, 3), f.claimOf(2, 3), f.claimOf(1, 3), f.claimOf(1, 3)
	a.mustHold(two)
	b.mustNotHold(other)
	b.mustHold(one)
	b.mustNotHold(more)
	a.mustLeave(two)
	b.mustHold(withoutQueue(nextTry(other)))
	b.mustNotHold(nextTry(more))
}

func largeNotStarved(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	first, large, small, try := f.claimOf(2, 3), f.claimOf(2, 3), f.claimOf(1, 3), f.claimOf(1, 3)
	a.mustHold(first)
	waitLarge := b.mustWait(large)
	waitSmall := c.mustWait(small)
	c.mustNotHold(try)
	a.mustLeave(first)
	b.mustGetTurn(large, waitLarge)
	c.mustGetTurn(small, waitSmall)
	f.expectLine("the first left", large, small)
}

// sumInTheWay makes the claim in the middle leave last, which exposes engines that
// watch only one of the claims ahead.
func sumInTheWay(f *fixture) {
	for stays := range 3 {
		a, b := f.open(), f.open()
		var ones [3]driver.Claim
		for i := range ones {
			ones[i] = f.claimOf(1, 3)
			a.mustHold(ones[i])
		}
		two := f.claimOf(2, 3)
		last := b.mustWait(two)
		call := f.inBackground(func() error {
			_, err := b.awaitHeld(f.ctx, two, last)
			return err
		})
		for i := range ones {
			if i != stays {
				a.mustLeave(ones[i])
			}
		}
		f.promptly("a handoff after two of three have left", func() { call.wait("Await") })
		b.mustLeave(two)
		a.mustLeave(ones[stays])
	}
}

func tryTakesFree(f *fixture) {
	a := f.open()
	for range 3 {
		a.mustHold(withoutQueue(f.claimOf(1, 3)))
	}
	a.mustNotHold(f.claimOf(1, 3))
	if n := len(f.line()); n != 3 {
		f.Errorf("%d claims are listed, 3 hold", n)
	}
}
