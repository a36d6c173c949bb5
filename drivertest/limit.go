package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// limitCases enter claims that disagree on the limit of a name.
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
		why: "A mutex, a writer and a whole semaphore of one name exclude each other, and shared claims of any limit."},
	{name: "exclusive claims of different limits wait in one line", law: 11, needs: needs{queue: true, shared: true, count: true}, run: exclusiveLine,
		why: "Claims that exclude each other must also wait for each other, in order."},
}

// expectLimit enters c, which must be refused with ErrLimit.
func expectLimit(s *session, c driver.Claim) {
	s.f.Helper()
	for _, c := range []driver.Claim{c, withoutQueue(nextTry(c))} {
		if st, err := s.tryEnter(s.f.ctx, c); !errors.Is(err, driver.ErrLimit) {
			s.f.Errorf("Enter of %d of %d: %+v, %v, not ErrLimit", c.Need, c.Limit, st, err)
		}
	}
}

func otherLimit(f *fixture) {
	a, b := f.open(), f.open()
	c := f.claimOf(1, 3)
	a.mustHold(c)
	expectLimit(b, f.claimOf(1, 5))
	expectLimit(b, f.claimOf(2, 4))
	f.expectLine("others were refused", c)
	b.mustHold(f.claimOf(1, 3))
}

func readerAndUnit(f *fixture) {
	a, b := f.open(), f.open()
	r, u := f.reader(), f.claimOf(1, 5)
	a.mustHold(r)
	expectLimit(b, u)
	a.mustLeave(r)
	b.mustHold(f.claimOf(1, 5))
	expectLimit(a, f.reader())
}

func limitWhileWaiting(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	m, three := f.claimOf(1, 1), f.claimOf(1, 3)
	a.mustHold(m)
	last := b.mustWait(three)
	expectLimit(c, f.claimOf(1, 4))
	f.expectLine("1 of 4 was refused", m, three)
	a.mustLeave(m)
	b.mustGetTurn(three, last)
}

func limitEnds(f *fixture) {
	a := f.open()
	for limit := 2; limit < 6; limit++ {
		c := f.claimOf(1, limit)
		a.mustHold(c)
		a.mustLeave(c)
	}
}

func exclusiveLimits(f *fixture) {
	a, b := f.open(), f.open()
	whole := [][2]int{{1, 1}, {3, 3}, {5, 5}, {driver.All, driver.All}}
	parts := [][2]int{{1, 5}, {2, 3}, {1, driver.All}}
	for _, w := range whole {
		held := f.claimOf(w[0], w[1])
		a.mustHold(held)
		for _, o := range append(whole, parts...) {
			b.mustNotHold(f.claimOf(o[0], o[1]))
		}
		a.mustLeave(held)
	}
	for _, p := range parts {
		held := f.claimOf(p[0], p[1])
		a.mustHold(held)
		for _, o := range whole {
			b.mustNotHold(f.claimOf(o[0], o[1]))
		}
		a.mustLeave(held)
	}
}

func exclusiveLine(f *fixture) {
	sizes := [][2]int{{1, 1}, {driver.All, driver.All}, {3, 3}, {1, 5}, {1, 1}}
	var (
		sessions []*session
		cs       []driver.Claim
		last     []driver.Standing
	)
	for i, size := range sizes {
		sessions, cs = append(sessions, f.open()), append(cs, f.claimOf(size[0], size[1]))
		if i == 0 {
			last = append(last, sessions[i].mustHold(cs[i]))
		} else {
			last = append(last, sessions[i].mustWait(cs[i]))
		}
	}
	f.expectLine("five of different limits", cs...)
	for i := range sizes[1:] {
		sessions[i].mustLeave(cs[i])
		sessions[i+1].mustGetTurn(cs[i+1], last[i+1])
	}
}
