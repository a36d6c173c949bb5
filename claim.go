package pawl

import (
	"context"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// maxPass bounds how often one grant is passed on: the pass is a token's low byte.
const maxPass = 255

// A state says how far a claim has come.
type state uint8

const (
	entering state = iota // no Enter was answered yet
	waiting               // in line
	held
	ended // given back, lost, or given up
)

// A claim is one claim of this process, from its first Enter until it has ended.
type claim struct {
	driver.Claim // changed only by the goroutine that acquires, under s.mu once live
	o            *options
	s            *session
	gate         *gate // nil: never passed on inside the process

	sent       instant // when the last Enter was sent
	unanswered instant // when the last Enter that got no answer was sent; 0: none

	until atomic.Int64 // the deadline, an instant; written under s.mu

	// guarded by s.mu
	state     state
	doubt     bool
	index     int     // in s.live
	promise   instant // until when the store promised the claim, less the margin
	limit     instant // where WithMaxHold ends it; 0: nowhere
	granted   instant // by the engine
	fence     uint64
	pass      uint8
	pinned    bool // a transaction may be guarded by it: never passed on inside the process
	over      int  // leases of it that have ended
	leases    []*Lease
	one       [1]*Lease               // room for leases, which is nearly always one
	interrupt context.CancelCauseFunc // ends the Await under way
}

func (cl *claim) deadline() instant { return instant(cl.until.Load()) }

// anew returns a claim for the same that the store has never seen.
func (cl *claim) anew() *claim {
	c := cl.Claim
	c.ID, c.Try = newID(), 1
	return &claim{Claim: c, o: cl.o, gate: cl.gate}
}

// identify gives a new claim its ID, which one that gets the lock from inside the
// process never needs.
func (cl *claim) identify() {
	if cl.ID == "" {
		cl.ID = newID()
	}
}

func (cl *claim) is(st state) bool {
	if cl.s == nil {
		return st == entering
	}
	cl.s.mu.Lock()
	defer cl.s.mu.Unlock()
	return cl.state == st
}

// passOn reports whether a held claim without leases may be passed on inside the
// process, and counts the pass if it may.
func (cl *claim) passOn() bool {
	s := cl.s
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || cl.state != held || cl.doubt || cl.pinned || cl.pass == maxPass || cl.gate.rests(now) ||
		now.sub(cl.granted) >= turnLength || cl.promise.sub(now) <= s.ttl/3 {
		return false
	}
	cl.pass++
	s.capLocked(cl, now)
	return true
}

func (cl *claim) interruptLocked() {
	if cl.interrupt != nil {
		cl.interrupt(errLook)
	}
}

// entry shows a claim of this process as List would.
func (cl *claim) entry() (driver.Entry, bool) {
	s := cl.s
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if cl.state != held || now >= cl.deadline() {
		return driver.Entry{}, false
	}
	return driver.Entry{
		Claim: cl.Claim, Session: s.id, Held: true, Fence: cl.fence,
		Since: now.sub(cl.granted), Left: cl.promise.add(s.margin).sub(now),
	}, true
}

// giveBack passes a held claim without leases on, or leaves it.
func (cl *claim) giveBack() error {
	if cl.gate != nil && cl.gate.release(cl) {
		return nil
	}
	s := cl.s
	s.mu.Lock()
	if cl.state != held {
		defer s.mu.Unlock()
		return cl.whyEndedLocked()
	}
	s.left = append(s.left, cl) // before endLocked: the session must not retire meanwhile
	s.endLocked(cl)
	s.mu.Unlock()
	defer s.leftBy(cl)
	return s.leave(cl)
}

// observe tells the claim's observer, if it has one.
func (cl *claim) observe(e Event) {
	if cl.o.observer != nil {
		e.Name, e.ID = cl.Name, cl.ID
		cl.o.observer.Observe(e)
	}
}

func (cl *claim) tokenLocked() uint64 { return cl.fence<<8 | uint64(cl.pass) }
