package drivertest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// multiCases are about several claims in one step, in sessions that can.
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

// all returns claims for the case's names with these endings.
func (s *stage) all(tails ...string) []driver.Claim {
	var cs []driver.Claim
	for _, tail := range tails {
		cs = append(cs, named(s.claim(), s.name+"/"+tail))
	}
	return cs
}

func (p *player) multi() (driver.Multi, bool) {
	m, ok := p.Session.(driver.Multi)
	if !ok {
		p.s.Log("the session is no driver.Multi")
	}
	return m, ok
}

func enterAllOrNone(s *stage) {
	a, b := s.join(), s.join()
	m, ok := b.multi()
	if !ok {
		return
	}
	cs := s.all("a", "b", "c")
	blocking := named(s.claim(), cs[1].Name)
	a.hold(blocking)
	for i := range cs {
		cs[i] = tries(cs[i])
	}
	out, err := m.EnterAll(s.ctx, cs)
	if err != nil {
		s.Fatalf("EnterAll: %v", err)
	}
	for i, st := range out {
		if st.Held {
			s.Errorf("claim %d is held though claim 1 is not: %+v", i, st)
		}
	}
	s.expectLine("EnterAll held nothing", blocking)
	a.hold(tries(named(s.claim(), cs[0].Name)))
	a.hold(tries(named(s.claim(), cs[2].Name)))
}

func enterAllAgain(s *stage) {
	a, b := s.join(), s.join()
	m, ok := a.multi()
	if !ok {
		return
	}
	cs := s.all("a", "b", "c")
	first, err := m.EnterAll(s.ctx, cs)
	if err != nil || len(first) != len(cs) {
		s.Fatalf("EnterAll: %d answers, %v", len(first), err)
	}
	second, err := m.EnterAll(s.ctx, cs)
	if err != nil || len(second) != len(cs) {
		s.Fatalf("EnterAll again: %d answers, %v", len(second), err)
	}
	for i := range cs {
		if !first[i].Held || !second[i].Held || first[i].Token != second[i].Token {
			s.Errorf("claim %d: %+v, then %+v", i, first[i], second[i])
		}
		b.denied(named(s.claim(), cs[i].Name))
	}
	if n := len(s.line()); n != len(cs) {
		s.Errorf("%d claims are listed, %d hold", n, len(cs))
	}
	for _, c := range cs {
		a.leave(c)
	}
}

func enterAllRefused(s *stage) {
	a, b := s.join(), s.join()
	m, ok := b.multi()
	if !ok {
		return
	}
	unit := named(s.claimOf(1, 3), s.name+"/c")
	a.hold(unit)
	cs := append(s.all("a", "b"), named(s.claimOf(1, 4), unit.Name))
	if _, err := m.EnterAll(s.ctx, cs); !errors.Is(err, driver.ErrLimit) {
		s.Errorf("EnterAll with a claim of another limit: %v, not ErrLimit", err)
	}
	s.expectLine("EnterAll was refused", unit)
}

func enterAllOpposite(s *stage) {
	const rounds = 10
	var holders atomic.Int32
	var tasks []*task
	for i := range 2 {
		p := s.join()
		m, ok := p.multi()
		if !ok {
			return
		}
		tails := []string{"a", "b"}
		if i == 1 {
			tails = []string{"b", "a"}
		}
		tasks = append(tasks, s.start(func() error {
			for range rounds {
				if err := holdAll(p, m, s.all(tails...), &holders); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, k := range tasks {
		k.wait("asking for two names in opposite orders")
	}
}

func holdAll(p *player, m driver.Multi, cs []driver.Claim, holders *atomic.Int32) error {
	out, err := m.EnterAll(p.s.ctx, cs)
	if err != nil {
		return err
	}
	for i, c := range cs {
		if _, err := p.until(p.s.ctx, c, out[i]); err != nil {
			return err
		}
	}
	if n := holders.Add(1); n != 1 {
		return fmt.Errorf("%d hold both names", n)
	}
	holders.Add(-1)
	for _, c := range cs {
		if err := p.quit(p.s.ctx, c); err != nil {
			return err
		}
	}
	return nil
}
