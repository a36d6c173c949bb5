package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// evictCases break claims as an operator does.
var evictCases = []lawCase{
	{name: "Evict breaks exactly the claim it was shown", law: 14, run: evictExact,
		why: "The holder is evicted: its next Beat says so, its other claims stay, and the name is free."},
	{name: "word of an earlier grant is not the repeated claim's", law: 1, needs: needs{queue: true}, run: earlierGrant,
		why: "B waits, but the answer to its Enter is lost. A leaves, B is let in and told, and its hold ends unused. C holds. B's core repeats the Enter, and B waits anew: the earlier notice must not count for the new claim."},
	{name: "Evict lets the next one in", law: 7, needs: needs{queue: true}, run: evictWakes,
		why: "The holder is evicted while B waits: B is woken as if the holder had left."},
	{name: "an evicted waiter is told and those behind it move up", law: 14, needs: needs{queue: true}, run: evictWaiter,
		why: "B waits in Await and is evicted: Await says gone, and C is next."},
	{name: "Evict is refused when the claim has changed", law: 14, run: evictChanged,
		why: "Between List and Evict the holder left and came again: the operator meant the hold that was seen, not this one."},
	{name: "an evicted claim can come again with the next Try", law: 14, run: evictedAgain,
		why: "The core of the evicted holder enters anew: it gets a new grant, and a repeated eviction of the old one does not touch it."},
}

// evict breaks e, which must exist.
func (f *fixture) evict(e driver.Entry) {
	f.Helper()
	if err := f.engine.Evict(f.ctx, e); err != nil {
		f.Fatalf("Evict: %v", err)
	}
}

// evictNothing calls Evict for an entry that does not match any claim.
func (f *fixture) evictNothing(why string, e driver.Entry) {
	f.Helper()
	if err := f.engine.Evict(f.ctx, e); !errors.Is(err, driver.ErrGone) {
		f.Errorf("Evict of a claim %s: %v, not ErrGone", why, err)
	}
}

func evictExact(f *fixture) {
	a, b := f.open(), f.open()
	broken, kept := f.claim(), withName(f.claim(), f.name+"/kept")
	a.mustHold(broken)
	a.mustHold(kept)
	f.evict(f.entry(broken))
	b.mustHold(withoutQueue(f.claim()))
	out := a.mustBeat(broken, kept)
	if !out[0].Gone {
		f.Errorf("Beat says %+v of an evicted claim", out[0])
	}
	if out[1].Gone {
		f.Errorf("the session's other claim went with the evicted one")
	}
	a.mustLeaveNothing(broken)
	a.mustNotHold(nextTry(broken))
}

func evictWakes(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	call := f.inBackground(func() error {
		_, err := b.awaitHeld(f.ctx, cb, last)
		return err
	})
	time.Sleep(20 * time.Millisecond) // so that Await is probably blocked; if it is not, the case is merely easier
	f.evict(f.entry(ca))
	f.promptly("a handoff by eviction", func() { call.wait("Await") })
}

func evictWaiter(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	next := c.mustWait(cc)
	told := f.inBackground(func() error {
		for {
			st, err := b.Await(f.ctx, cb, last)
			if err != nil || st.Gone {
				return err
			}
			if st.Held {
				return errors.New("the evicted waiter holds")
			}
			last = st
		}
	})
	time.Sleep(20 * time.Millisecond) // so that Await is probably blocked; if it is not, the case is merely easier
	f.evict(f.entry(cb))
	f.promptly("telling an evicted waiter", func() { told.wait("Await") })
	f.expectLine("B was evicted", ca, cc)
	a.mustLeave(ca)
	c.mustGetTurn(cc, next)
}

func evictChanged(f *fixture) {
	a := f.open()
	c := f.claim()
	a.mustHold(c)
	seen := f.entry(c)

	other := seen
	other.ID = newID()
	f.evictNothing("with another ID", other)
	if f.can.Fencing != driver.None {
		other = seen
		other.Fence++
		f.evictNothing("with another token", other)
	}
	other = seen
	other.Try++
	f.evictNothing("with a higher Try", other)
	other = seen
	other.Name += "/other"
	f.evictNothing("under another name", other)

	a.mustLeave(c)
	f.evictNothing("that was left", seen)
	c = nextTry(c)
	a.mustHold(c)
	f.evictNothing("that was left and entered again", seen)
	f.expectLine("nothing was evicted", c)
	if out := a.mustBeat(c); out[0].Gone {
		f.Errorf("the holder is gone though Evict was refused")
	}
	if f.can.Shared && f.can.Fencing != driver.None {
		a.mustLeave(c)
		reads := f.claimOf(1, driver.All)
		a.mustHold(reads)
		other = f.entry(reads)
		other.Fence++
		f.evictNothing("of a reader with another token", other)
		f.expectLine("no reader was evicted", reads)
	}
}

func evictedAgain(f *fixture) {
	a, b := f.open(), f.open()
	c := f.claim()
	first := a.mustHold(c)
	seen := f.entry(c)
	f.evict(seen)
	c = nextTry(c)
	expectFresh(f, c, first, a.mustHold(c))
	f.evictNothing("that was evicted before", seen)
	b.mustNotHold(f.claim())
	f.expectLine("the evicted one came again", c)
}

func earlierGrant(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	listens, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	_, _ = b.Await(listens, cb, last) // an engine that pushes subscribes here at the latest
	cancel()
	a.mustLeave(ca)
	time.Sleep(20 * time.Millisecond) // so that the notice has probably arrived; if it has not, the case is merely easier
	f.evict(f.entry(cb))
	mark := c.mustHold(cc).Token
	last = b.mustWait(cb)
	before, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	if st, err := b.Await(before, cb, last); err == nil && st.Held {
		f.Fatalf("Await says %+v, and another holds the name with token %d", st, mark)
	}
	c.mustLeave(cc)
	if st := b.mustGetTurn(cb, last); f.can.Fencing != driver.None && st.Token <= mark {
		f.Errorf("token %d after %d", st.Token, mark)
	}
	b.mustLeave(cb)
}
