package pawl

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// A claim is one claim of this process, from its first Enter until it has ended. Its
// state, and every transition of it, is package claimset's.
type claim struct {
	claimset.Claim
	mode Mode
	o    *options // of the acquire, and then of the lease that is not nested in another
	s    *session
	gate *gate // nil: never passed on inside the process

	// Used by the goroutine that acquires, and after it by the one that unlocks.
	unanswered instant // when the last Enter that got no answer was sent; 0: none

	// guarded by s.mu
	terms     []*term
	one       [1]*term                // room for terms, of which there is nearly always one
	over      int                     // leases of it that have ended
	since     instant                 // when that lease began
	untold    bool                    // the observers are being told that it is held; of a loss only after that
	loss      *Event                  // what to tell them then
	interrupt context.CancelCauseFunc // ends the Await under way
}

func newClaim(c driver.Claim, mode Mode, o *options, g *gate) *claim {
	cl := &claim{mode: mode, o: o, gate: g}
	cl.Claim.Claim, cl.MaxHold, cl.Owner = c, o.maxHold, cl
	return cl
}

// anew returns a claim for the same that the store has never seen.
func (cl *claim) anew() *claim {
	c := cl.Claim.Claim
	c.ID, c.Try = newID(), 1
	return newClaim(c, cl.mode, cl.o, cl.gate)
}

// identify gives a new claim its ID, which a claim that is replaced by a hold from
// inside the process never needs.
func (cl *claim) identify() {
	if cl.ID == "" {
		cl.ID = newID()
	}
}

// is reports whether the claim is in a state; without a session it is entering.
func (cl *claim) is(st claimset.State) bool {
	if cl.s == nil {
		return st == claimset.Entering
	}
	cl.s.mu.Lock()
	defer cl.s.mu.Unlock()
	return cl.State() == st
}

// passOn reports whether a held claim without leases may be passed on inside the
// process, and counts the pass if it may.
func (cl *claim) passOn(now instant) bool {
	s := cl.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Pass(&cl.Claim, now, turnLength)
}

// entry shows a claim of this process as List would.
func (cl *claim) entry() (driver.Entry, bool) {
	s := cl.s
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !cl.HeldAt(now) {
		return driver.Entry{}, false
	}
	return driver.Entry{
		Claim: cl.Claim.Claim, Session: s.id, Held: true, Fence: cl.Fence(),
		Since: now.Sub(cl.Granted()), Left: cl.Promise().Add(s.margin).Sub(now),
	}, true
}

// addTermLocked makes l a lease of the held claim.
func (cl *claim) addTermLocked(l *Lease, now instant) {
	l.fence, l.pass, l.since, l.turn = cl.Fence(), cl.Pass(), now, cl.over
	cl.terms = append(cl.terms, &l.term)
}

// interruptLocked makes the Await of the claim, if there is one, return early.
func (cl *claim) interruptLocked() {
	if cl.interrupt != nil {
		cl.interrupt(errLook)
	}
}

// tell counts an event of the claim, and tells the lock's observers of it.
func (c *Client) tell(cl *claim, o *options, e Event) {
	c.counters.count(e.Kind)
	if len(o.observers) > 0 {
		c.complete(cl, &e)
		o.observers.post(&c.counters, &e)
	}
}

// complete adds what an event of the claim has from it.
func (c *Client) complete(cl *claim, e *Event) {
	e.Name, e.ID, e.Mode, e.Store = cl.Name, cl.ID, cl.mode, c.kind
	if cl.mode == Counted {
		e.Permits = cl.Need
	}
}

// A notice is an event to be told once the session's mutex is free.
type notice struct {
	to observers
	e  Event
}

// noticeLocked counts an event, and appends it to those that are told once the mutex is
// free.
func (cl *claim) noticeLocked(to []notice, e Event) []notice {
	c := cl.s.c
	c.counters.count(e.Kind)
	if len(cl.o.observers) == 0 {
		return to
	}
	e.Token = cl.tokenLocked()
	c.complete(cl, &e)
	return append(to, notice{cl.o.observers, e})
}

func (cl *claim) tokenLocked() uint64 { return token(cl.Fence(), cl.Pass()) }

// token is the engine's token and, in its low byte, how often the grant was passed on
// inside the process.
func token(fence uint64, pass uint8) uint64 { return fence<<8 | uint64(pass) }
