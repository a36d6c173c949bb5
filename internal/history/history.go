// Package history has the record of what several clients did with locks, and the rules
// that such a record keeps if the locks are sound. The record may come from processes on
// a real store or from a simulation.
//
// Every rule is conservative: times are taken on the side that makes a hold shorter, so
// that what is reported has happened. A hold is certain from the moment after the acquire
// returned until the last moment before the lease was asked and said that it is held.
package history

import (
	"math"
	"time"
)

// A Time is a moment on a clock that all clients share; 0 is none.
type Time time.Duration

// Forever is later than every moment of a history.
const Forever = Time(math.MaxInt64)

// A Result is how an acquire ended.
type Result uint8

// The results of an acquire.
const (
	NoAnswer Result = iota // it never returned: its process was killed, or is stuck
	Held
	Busy   // somebody else holds or waits: a try that was refused, or WithWait
	Failed // cancelled, or the store could not be reached
)

// An End is how a hold ended.
type End uint8

// The ends of a hold.
const (
	Open     End = iota // not at all: its process was killed, or is stuck
	Released            // Unlock returned nil
	Lost                // the lease said so
	Unknown             // Unlock could not say
)

// An Attempt is one acquire, and the hold that it led to.
type Attempt struct {
	Client int // the process
	Lane   int // the goroutine in it
	Name   string
	Need   int // units, as in driver.Claim
	Limit  int
	Try    bool // it does not wait
	Fair   bool // grants follow the order of arrival, also inside the process

	Called    Time // just before the call
	Queued    Time // it was in line at this moment, if not before
	Forgotten Time // it was in line before, and had to come into it again at this moment
	Cancelled Time // its context was ended just after this moment
	Returned  Time // just after the call
	Result    Result
	Err       string
	Token     uint64

	Alive    Time // the last moment, read before the lease was asked, at which it was held
	Told     Time // just after its context had been seen to end by a loss
	Early    bool // the store ended it: it was lost before its own deadline
	Unlock   Time // just before Unlock
	Unlocked Time // just after it
	End      End

	Writes []Write
}

// A Write is one write to the register under a hold.
type Write struct {
	Seq      int // from 1, in the register's order; 0: no answer
	At       Time
	Answered Time // 0: not known
	Accepted bool
}

// AllClients is the client of a fault that concerns every client, as one of the store.
const AllClients = -1

// A Fault is what was done to a client, or to the store. After it the client may have lost
// its session, and with it its places in line.
type Fault struct {
	Client   int
	Kind     string // "pause", "kill", "cut", …; Stall if nobody did it
	From, To Time
}

// Kinds of faults in which the process does not run.
const (
	Pause = "pause" // stopped by a signal
	Stall = "stall" // the machine did not run it
	Kill  = "kill"
)

// A History is the record of one run.
type History struct {
	TTL      time.Duration // the longest of a lease
	Expiry   time.Duration // a claim of a client that is gone has expired after this; two TTL if it is less
	Attempts []Attempt
	Faults   []Fault
	End      Time     // when the last wait that could end had ended
	Left     []string // claims that were still in the store a while after the end

	LeftUnknown bool // the store could not be asked
}

// Exclusive reports whether a takes the whole name.
func (a *Attempt) Exclusive() bool { return a.Need >= a.Limit }

// wasLost reports whether the hold ended by a loss, as far as its process could tell.
func (a *Attempt) wasLost() bool { return a.End == Lost || a.Told != 0 }

// certain reports whether a was seen to hold.
func (a *Attempt) certain() bool { return a.Result == Held && a.Alive >= a.Returned }

// conflicts reports whether a and b cannot hold at the same time.
func (a *Attempt) conflicts(b *Attempt) bool {
	return a.Exclusive() || b.Exclusive() || a.Need+b.Need > min(a.Limit, b.Limit)
}
