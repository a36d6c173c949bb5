package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// limitCases are about claims that do not agree on what the name is.
var limitCases = []lawCase{
	{name: "shared claims of another limit are refused", law: 11, needs: needs{count: true}, run: otherLimit,
		why: "One process thinks that the semaphore has 3 units, another 5: together they would hand out too many."},
	{name: "a reader and a semaphore's unit cannot share a line", law: 11, needs: needs{shared: true, count: true}, run: readerAndUnit,
		why: "A reader is 1 of All, a unit 1 of 5: no sum of them has a meaning."},
	{name: "a limit counts also while its claims wait", law: 11, needs: needs{queue: true, count: true}, run: limitWhileWaiting,
		why: "A mutex holds, 1 of 3 waits; 1 of 4 may not stand behind it, and leaves no trace."},
	{name: "a limit ends with the line", law: 11, needs: needs{count: true}, run: limitEnds,
		why: "A semaphore is made larger when nobody uses it: the old limit must not be kept for ever."},
	{name: "exclusive claims exclude each other whatever their limit", law: 11, needs: needs{shared: true, count: true}, run: exclusiveLimits,
		why: "A mutex, a writer and a whole semaphore of one name are all alone with it, also against shared claims of any limit."},
	{name: "exclusive claims of different limits wait in one line", law: 11, needs: needs{queue: true, shared: true, count: true}, run: exclusiveLine,
		why: "Those that exclude each other must also wait for each other, in order."},
}

// expectLimit enters c, which must be refused.
func expectLimit(p *player, c driver.Claim) {
	p.s.Helper()
	for _, c := range []driver.Claim{c, tries(next(c))} {
		if st, err := p.ask(p.s.ctx, c); !errors.Is(err, driver.ErrLimit) {
			p.s.Errorf("Enter of %d of %d: %+v, %v, not ErrLimit", c.Need, c.Limit, st, err)
		}
	}
}

func otherLimit(s *stage) {
	a, b := s.join(), s.join()
	c := s.claimOf(1, 3)
	a.hold(c)
	expectLimit(b, s.claimOf(1, 5))
	expectLimit(b, s.claimOf(2, 4))
	s.expectLine("others were refused", c)
	b.hold(s.claimOf(1, 3))
}

func readerAndUnit(s *stage) {
	a, b := s.join(), s.join()
	r, u := s.reader(), s.claimOf(1, 5)
	a.hold(r)
	expectLimit(b, u)
	a.leave(r)
	b.hold(s.claimOf(1, 5))
	expectLimit(a, s.reader())
}

func limitWhileWaiting(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	m, three := s.claimOf(1, 1), s.claimOf(1, 3)
	a.hold(m)
	last := b.stand(three)
	expectLimit(c, s.claimOf(1, 4))
	s.expectLine("1 of 4 was refused", m, three)
	a.leave(m)
	b.turn(three, last)
}

func limitEnds(s *stage) {
	a := s.join()
	for limit := 2; limit < 6; limit++ {
		c := s.claimOf(1, limit)
		a.hold(c)
		a.leave(c)
	}
}

func exclusiveLimits(s *stage) {
	a, b := s.join(), s.join()
	whole := [][2]int{{1, 1}, {3, 3}, {5, 5}, {driver.All, driver.All}}
	parts := [][2]int{{1, 5}, {2, 3}, {1, driver.All}}
	for _, w := range whole {
		held := s.claimOf(w[0], w[1])
		a.hold(held)
		for _, o := range append(whole, parts...) {
			b.denied(s.claimOf(o[0], o[1]))
		}
		a.leave(held)
	}
	for _, p := range parts {
		held := s.claimOf(p[0], p[1])
		a.hold(held)
		for _, o := range whole {
			b.denied(s.claimOf(o[0], o[1]))
		}
		a.leave(held)
	}
}

func exclusiveLine(s *stage) {
	sizes := [][2]int{{1, 1}, {driver.All, driver.All}, {3, 3}, {1, 5}, {1, 1}}
	var (
		ps   []*player
		cs   []driver.Claim
		last []driver.Standing
	)
	for i, size := range sizes {
		ps, cs = append(ps, s.join()), append(cs, s.claimOf(size[0], size[1]))
		if i == 0 {
			last = append(last, ps[i].hold(cs[i]))
		} else {
			last = append(last, ps[i].stand(cs[i]))
		}
	}
	s.expectLine("five of different limits", cs...)
	for i := range sizes[1:] {
		ps[i].leave(cs[i])
		ps[i+1].turn(cs[i+1], last[i+1])
	}
}
