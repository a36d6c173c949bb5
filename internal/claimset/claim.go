// Package claimset holds the state of the claims of one session, and every
// transition of it: joined, answered, granted, passed on, prolonged, expired,
// ended.
//
// It does no I/O, reads no clock, starts no goroutine and takes no lock: the caller
// says what happened and when, under a mutex of its own. It promises that
//
//   - a deadline is never later than what the store promised, less the margin, and
//     never later than the end of the maximum hold;
//   - what a call promised is never taken back by a later answer to an earlier call;
//   - an ended claim stays ended, and no answer revives it;
//   - an answer about an earlier ID or Try of a claim changes nothing;
//   - a claim that is held now has a larger fence or pass than at its last holder.
package claimset

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// An Instant is a moment on the caller's clock; 0 is none.
type Instant time.Duration

// Never is later than every other instant.
const Never = Instant(math.MaxInt64)

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than o.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// A State says how far a claim has come.
type State uint8

// The states of a claim, in their order: only Rename and Retry go back, from
// Waiting to Entering.
const (
	Entering State = iota // no Enter has been answered
	Waiting               // in line
	Held
	Ended // given back, lost, or given up
)

// MaxPass is how often one grant is passed on at most: the pass is the low byte of
// a token.
const MaxPass = 255

// A Claim is one claim of this process, from its first Enter until it has ended.
// It belongs to the Set that it joined last.
type Claim struct {
	driver.Claim // changed only by Rename and Retry once it has joined
	Owner        any
	MaxHold      time.Duration // 0: no limit

	until atomic.Int64 // the deadline, an Instant; read without the mutex

	state   State
	doubt   bool // the last beat did not confirm the hold
	pinned  bool // never passed on
	pass    uint8
	round   uint32  // the last one in which a beat was answered for it
	asked   Instant // when the beat under way was sent that asks for it; 0: there is none
	index   int     // in Set.live
	promise Instant // until when the store promised the claim, less the margin
	limit   Instant // where MaxHold ends it; 0: nowhere
	granted Instant
	fence   uint64
}

// Deadline returns when the hold ends if the store promises nothing more. It needs
// no mutex.
func (c *Claim) Deadline() Instant { return Instant(c.until.Load()) }

// State returns how far the claim has come.
func (c *Claim) State() State { return c.state }

// HeldAt reports whether the claim is held and its deadline has not passed.
func (c *Claim) HeldAt(now Instant) bool { return c.state == Held && now < c.Deadline() }

// Doubtful reports whether the last beat did not confirm the hold.
func (c *Claim) Doubtful() bool { return c.doubt }

// Promise returns until when the store promised the claim, less the margin; 0: it
// has not yet.
func (c *Claim) Promise() Instant { return c.promise }

// Granted returns when the engine granted the claim.
func (c *Claim) Granted() Instant { return c.granted }

// Fence returns the engine's token.
func (c *Claim) Fence() uint64 { return c.fence }

// Pass returns how often the grant was passed on.
func (c *Claim) Pass() uint8 { return c.pass }

// Pin keeps the claim from being passed on.
func (c *Claim) Pin() { c.pinned = true }

// OverLimit reports whether the maximum hold is what ended the claim.
func (c *Claim) OverLimit(now Instant) bool { return c.limit != 0 && now >= c.limit }

// setDeadline follows a change of promise or limit.
func (c *Claim) setDeadline() {
	deadline := c.promise
	if c.limit != 0 {
		deadline = min(deadline, c.limit)
	}
	c.until.Store(int64(deadline))
}
