package drivertest

import (
	"errors"
	"regexp"

	"github.com/pawl-go/pawl/driver"
)

// featureCases check that an engine refuses the features that it declares absent.
var featureCases = []lawCase{
	{name: "what the features lack is refused", law: 12, run: refusesAbsent,
		why: "A reader that is silently a writer, or a semaphore that is silently a mutex, is only discovered in production."},
	{name: "tokens are there where fencing is declared, and nowhere else", law: 12, run: fencingAsDeclared,
		why: "A caller that checks tokens relies on getting one."},
	{name: "the kind of store is named in one word", law: 12, run: storeNamed,
		why: "Metrics of several stores are told apart by it."},
}

// supports reports whether the engine has all features of n. For an absent feature
// it checks that the engine refuses it.
func (f *fixture) supports(n needs) bool {
	able := true
	lacks := func(needed, has bool, what string, refused ...driver.Claim) {
		if !needed || has {
			return
		}
		able = false
		f.Logf("the engine declares no %s", what)
		s := f.open()
		for _, c := range refused {
			if st, err := s.tryEnter(f.ctx, c); !errors.Is(err, driver.ErrUnsupported) {
				f.Errorf("Enter of %d of %d (queue %v) without %s: %+v, %v, not ErrUnsupported", c.Need, c.Limit, c.Queue, what, st, err)
				_ = s.tryLeave(f.ctx, c) // the failure is already reported
			}
		}
	}
	queued := f.claimOf(1, 1)
	queued.Queue = true
	lacks(n.queue, f.can.Queue, "line", queued)
	lacks(n.push, f.can.Push, "push")
	lacks(n.shared, f.can.Shared, "readers", f.reader(), withoutQueue(f.reader()))
	lacks(n.count, f.can.Count, "semaphores", f.claimOf(1, 3), withoutQueue(f.claimOf(2, 3)))
	lacks(n.fencing, f.can.Fencing != driver.None, "tokens")
	return able
}

func refusesAbsent(f *fixture) {
	f.supports(needs{queue: true, shared: true, count: true})
	f.expectLine("what is absent was refused")
}

func fencingAsDeclared(f *fixture) {
	a := f.open()
	c := f.claim()
	st := a.mustHold(c)
	if has := st.Token != 0; has != (f.can.Fencing != driver.None) {
		f.Errorf("fencing is declared as %v and the token is %d", f.can.Fencing, st.Token)
	}
	if st.Token >= 1<<55 {
		f.Errorf("token %d is not below 1<<55: it has no room for the pass", st.Token)
	}
}

func storeNamed(f *fixture) {
	if !regexp.MustCompile("^[a-z]+$").MatchString(f.can.Store) {
		f.Errorf("the kind of store is %q, not a word of lower case", f.can.Store)
	}
}
