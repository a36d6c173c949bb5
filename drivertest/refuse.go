package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// refuseCases are about what an engine says it cannot do.
var refuseCases = []lawCase{
	{name: "what the features lack is refused", law: 12, run: refusesAbsent,
		why: "A reader that is silently a writer, or a semaphore that is silently a mutex, is found out in production."},
	{name: "tokens are there where fencing is declared, and nowhere else", law: 12, run: fencingAsDeclared,
		why: "A caller that checks tokens must be able to trust that there are some."},
}

// able reports whether the engine has all features of n. For one that is absent
// it checks that the engine refuses it.
func (s *stage) able(n needs) bool {
	able := true
	lacks := func(needed, has bool, what string, refused ...driver.Claim) {
		if !needed || has {
			return
		}
		able = false
		s.Logf("the engine declares that it has no %s", what)
		p := s.join()
		for _, c := range refused {
			if st, err := p.ask(s.ctx, c); !errors.Is(err, driver.ErrUnsupported) {
				s.Errorf("Enter of %d of %d (queue %v) without %s: %+v, %v, not ErrUnsupported", c.Need, c.Limit, c.Queue, what, st, err)
				_ = p.quit(s.ctx, c) // the failure is reported
			}
		}
	}
	queued := s.claimOf(1, 1)
	queued.Queue = true
	lacks(n.queue, s.can.Queue, "line", queued)
	lacks(n.push, s.can.Push, "push")
	lacks(n.shared, s.can.Shared, "readers", s.reader(), tries(s.reader()))
	lacks(n.count, s.can.Count, "semaphores", s.claimOf(1, 3), tries(s.claimOf(2, 3)))
	lacks(n.fencing, s.can.Fencing != driver.None, "tokens")
	return able
}

func refusesAbsent(s *stage) {
	s.able(needs{queue: true, shared: true, count: true})
	s.expectLine("what is absent was refused")
}

func fencingAsDeclared(s *stage) {
	a := s.join()
	c := s.claim()
	st := a.hold(c)
	if has := st.Token != 0; has != (s.can.Fencing != driver.None) {
		s.Errorf("fencing is declared as %v and the token is %d", s.can.Fencing, st.Token)
	}
	if st.Token >= 1<<55 {
		s.Errorf("token %d is not below 1<<55: it has no room for the pass", st.Token)
	}
}
