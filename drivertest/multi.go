package drivertest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// multiCases enter several claims in one step, on engines whose sessions are a
// driver.Multi.
var multiCases = []lawCase{
	{name: "EnterAll holds all or none", law: 5, run: enterAllOrNone,
		why: "One of three names is held: the other two are not kept, and nothing is left in their lines."},
	{name: "a repeated EnterAll answers the same", law: 1, run: enterAllAgain,
		why: "The reply was lost and the core asks again."},
	{name: "EnterAll with one refused keeps none", law: 11, needs: needs{count: true}, run: enterAllRefused,
		why: "The last of the claims has another limit: those before it must not stay."},
	{name: "EnterAll in opposite orders does not deadlock", law: 2, needs: needs{queue: true}, run: enterAllOpposite,
		why: "One asks for a and b, another for b and a: in one atomic step neither can stand before the other in one line and behind it in the other."},
}

// all returns one claim for each of these suffixes of the case's name.
func (f *fixture) all(tails ...string) []driver.Claim {
	var cs []driver.Claim
	for _, tail := range tails {
		cs = append(cs, withName(f.claim(), f.name+"/"+tail))
	}
	return cs
}

func (s *session) multi() (driver.Multi, bool) {
	m, ok := s.Session.(driver.Multi)
	if !ok {
		s.f.Log("the session is no driver.Multi")
	}
	return m, ok
}

func enterAllOrNone(f *fixture) {
	a, b := f.open(), f.open()
	m, ok := b.multi()
	if !ok {
		return
	}
	cs := f.all("a", "b", "c")
	blocking := withName(f.claim(), cs[1].Name)
	a.mustHold(blocking)
	for i := range cs {
		cs[i] = withoutQueue(cs[i])
	}
	out, err := m.EnterAll(f.ctx, cs)
	if err != nil {
		f.Fatalf("EnterAll: %v", err)
	}
	for i, st := range out {
		if st.Held {
			f.Errorf("claim %d is held though claim 1 is not: %+v", i, st)
		}
	}
	f.expectLine("EnterAll held nothing", blocking)
	a.mustHold(withoutQueue(withName(f.claim(), cs[0].Name)))
	a.mustHold(withoutQueue(withName(f.claim(), cs[2].Name)))
}

func enterAllAgain(f *fixture) {
	a, b := f.open(), f.open()
	m, ok := a.multi()
	if !ok {
		return
	}
	cs := f.all("a", "b", "c")
	first, err := m.EnterAll(f.ctx, cs)
	if err != nil || len(first) != len(cs) {
		f.Fatalf("EnterAll: %d answers, %v", len(first), err)
	}
	second, err := m.EnterAll(f.ctx, cs)
	if err != nil || len(second) != len(cs) {
		f.Fatalf("EnterAll again: %d answers, %v", len(second), err)
	}
	for i := range cs {
		if !first[i].Held || !second[i].Held || first[i].Token != second[i].Token {
			f.Errorf("claim %d: %+v, then %+v", i, first[i], second[i])
		}
		b.mustNotHold(withName(f.claim(), cs[i].Name))
	}
	if n := len(f.line()); n != len(cs) {
		f.Errorf("%d claims are listed, %d hold", n, len(cs))
	}
	for _, c := range cs {
		a.mustLeave(c)
	}
}

func enterAllRefused(f *fixture) {
	a, b := f.open(), f.open()
	m, ok := b.multi()
	if !ok {
		return
	}
	unit := withName(f.claimOf(1, 3), f.name+"/c")
	a.mustHold(unit)
	cs := append(f.all("a", "b"), withName(f.claimOf(1, 4), unit.Name))
	if _, err := m.EnterAll(f.ctx, cs); !errors.Is(err, driver.ErrLimit) {
		f.Errorf("EnterAll with a claim of another limit: %v, not ErrLimit", err)
	}
	f.expectLine("EnterAll was refused", unit)
}

func enterAllOpposite(f *fixture) {
	const rounds = 10
	var holders atomic.Int32
	var calls []*backgroundCall
	for i := range 2 {
		s := f.open()
		m, ok := s.multi()
		if !ok {
			return
		}
		tails := []string{"a", "b"}
		if i == 1 {
			tails = []string{"b", "a"}
		}
		calls = append(calls, f.inBackground(func() error {
			for range rounds {
				if err := holdAll(s, m, f.all(tails...), &holders); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, call := range calls {
		call.wait("asking for two names in opposite orders")
	}
}

func holdAll(s *session, m driver.Multi, cs []driver.Claim, holders *atomic.Int32) error {
	out, err := m.EnterAll(s.f.ctx, cs)
	if err != nil {
		return err
	}
	for i, c := range cs {
		if _, err := s.awaitHeld(s.f.ctx, c, out[i]); err != nil {
			return err
		}
	}
	if n := holders.Add(1); n != 1 {
		return fmt.Errorf("%d hold both names", n)
	}
	holders.Add(-1)
	for _, c := range cs {
		if err := s.tryLeave(s.f.ctx, c); err != nil {
			return err
		}
	}
	return nil
}
