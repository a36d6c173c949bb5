package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// evictCases are about an operator who breaks a claim.
var evictCases = []lawCase{
	{name: "Evict breaks exactly the claim it was shown", law: 14, run: evictExact,
		why: "The holder is evicted: it learns it at its next beat, its other claims stay, and the name is free."},
	{name: "word of an earlier grant is not the repeated claim's", law: 1, needs: needs{queue: true}, run: earlierGrant,
		why: "B waits, but the answer to its Enter is lost. A leaves, B is let in and told, and its hold ends unused. C holds. B's core repeats the Enter, and B waits anew: what it was told before says nothing of now."},
	{name: "Evict lets the next one in", law: 7, needs: needs{queue: true}, run: evictWakes,
		why: "The holder is evicted while B waits: B is told as if the holder had left."},
	{name: "an evicted waiter is told and those behind it move up", law: 14, needs: needs{queue: true}, run: evictWaiter,
		why: "B waits in Await and is evicted: Await says gone, and C is next."},
	{name: "Evict is refused when the claim has changed", law: 14, run: evictChanged,
		why: "Between List and Evict the holder left and came again: the operator meant the hold that was seen, not this one."},
	{name: "an evicted claim can come again with the next Try", law: 14, run: evictedAgain,
		why: "The core of the evicted holder enters anew: it gets a new grant, and a repeated eviction of the old one does not touch it."},
}

// evict breaks e, which must be there.
func (s *stage) evict(e driver.Entry) {
	s.Helper()
	if err := s.engine.Evict(s.ctx, e); err != nil {
		s.Fatalf("Evict: %v", err)
	}
}

// evictNothing calls Evict for a claim that is not there as e shows it.
func (s *stage) evictNothing(why string, e driver.Entry) {
	s.Helper()
	if err := s.engine.Evict(s.ctx, e); !errors.Is(err, driver.ErrGone) {
		s.Errorf("Evict of a claim %s: %v, not ErrGone", why, err)
	}
}

func evictExact(s *stage) {
	a, b := s.join(), s.join()
	broken, kept := s.claim(), named(s.claim(), s.name+"/kept")
	a.hold(broken)
	a.hold(kept)
	s.evict(s.entry(broken))
	b.hold(tries(s.claim()))
	out := a.beat(broken, kept)
	if !out[0].Gone {
		s.Errorf("Beat says %+v of an evicted claim", out[0])
	}
	if out[1].Gone {
		s.Errorf("the session's other claim went with the evicted one")
	}
	a.leaveNothing(broken)
	a.denied(next(broken))
}

func evictWakes(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	k := s.start(func() error {
		_, err := b.until(s.ctx, cb, last)
		return err
	})
	time.Sleep(20 * time.Millisecond) // so that Await most likely waits; if not, the case is only easier
	s.evict(s.entry(ca))
	s.promptly("a handoff by eviction", func() { k.wait("Await") })
}

func evictWaiter(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	next := c.stand(cc)
	told := s.start(func() error {
		for {
			st, err := b.Await(s.ctx, cb, last)
			if err != nil || st.Gone {
				return err
			}
			if st.Held {
				return errors.New("the evicted waiter holds")
			}
			last = st
		}
	})
	time.Sleep(20 * time.Millisecond) // so that Await most likely waits; if not, the case is only easier
	s.evict(s.entry(cb))
	s.promptly("telling an evicted waiter", func() { told.wait("Await") })
	s.expectLine("B was evicted", ca, cc)
	a.leave(ca)
	c.turn(cc, next)
}

func evictChanged(s *stage) {
	a := s.join()
	c := s.claim()
	a.hold(c)
	seen := s.entry(c)

	other := seen
	other.ID = newID()
	s.evictNothing("with another ID", other)
	if s.can.Fencing != driver.None {
		other = seen
		other.Fence++
		s.evictNothing("with another token", other)
	}
	other = seen
	other.Try++
	s.evictNothing("with a higher Try", other)
	other = seen
	other.Name += "/other"
	s.evictNothing("under another name", other)

	a.leave(c)
	s.evictNothing("that was left", seen)
	c = next(c)
	a.hold(c)
	s.evictNothing("that was left and entered again", seen)
	s.expectLine("nothing was evicted", c)
	if out := a.beat(c); out[0].Gone {
		s.Errorf("the holder is gone though Evict was refused")
	}
	if s.can.Shared && s.can.Fencing != driver.None {
		a.leave(c)
		reads := s.claimOf(1, driver.All)
		a.hold(reads)
		other = s.entry(reads)
		other.Fence++
		s.evictNothing("of a reader with another token", other)
		s.expectLine("no reader was evicted", reads)
	}
}

func evictedAgain(s *stage) {
	a, b := s.join(), s.join()
	c := s.claim()
	first := a.hold(c)
	seen := s.entry(c)
	s.evict(seen)
	c = next(c)
	expectFresh(s, c, first, a.hold(c))
	s.evictNothing("that was evicted before", seen)
	b.denied(s.claim())
	s.expectLine("the evicted one came again", c)
}

func earlierGrant(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	listens, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	_, _ = b.Await(listens, cb, last) // an engine that pushes is told from now on
	cancel()
	a.leave(ca)
	time.Sleep(20 * time.Millisecond) // so that the word most likely has come; if not, the case is only easier
	s.evict(s.entry(cb))
	mark := c.hold(cc).Token
	last = b.stand(cb)
	before, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if st, err := b.Await(before, cb, last); err == nil && st.Held {
		s.Fatalf("Await says %+v, and another holds the name with token %d", st, mark)
	}
	c.leave(cc)
	if st := b.turn(cb, last); s.can.Fencing != driver.None && st.Token <= mark {
		s.Errorf("token %d after %d", st.Token, mark)
	}
	b.leave(cb)
}
