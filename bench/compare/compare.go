// Package contest lets contenders do the same work in turn and compares them.
//
// A figure alone says little: it is that of one machine on one day. So contenders
// do their rounds alternately within one run, and what counts is the median of the
// ratios of rounds that were run next to each other.
package contest

import (
	"context"
	"time"
)

// A Locker is one client of one way to lock, as one process would have it.
type Locker interface {
	// Lock waits for name and returns what gives it back.
	Lock(ctx context.Context, name string) (unlock func() error, err error)
	Close() error
}

// A Contender is who does the work.
type Contender struct {
	Name string
	Open func(ctx context.Context) (Locker, error) // a client of its own, each time
}

// A Unit says what a figure counts.
type Unit struct {
	Name  string // as in a Go benchmark: "locks/s"
	Fewer bool   // the smaller figure is the better one
}

// A Work is what is done, and what is measured of it.
type Work struct {
	Name  string // one word, for flags and benchmark lines
	Does  string // one line, for tables
	Units []Unit // the first is the one that contenders are compared by
	// Begin opens the clients that c needs for the rounds.
	Begin func(ctx context.Context, c Contender) (Rounds, error)
}

// Rounds are one contender's turns at a work.
type Rounds interface {
	// Round does the work once, for about the given time where it has no end of its
	// own, and returns a figure for each unit.
	Round(ctx context.Context, length time.Duration) ([]float64, error)
	Close() error
}

// A Bound is what a contender must reach.
type Bound struct {
	Who    string
	Unit   int     // which of the work's units
	Than   string  // the contender it is compared with; empty: with nobody
	Factor float64 // how many times the other's figure, or the figure itself
	AtMost bool    // the figure must not be above it; otherwise not below
	Plus   float64 // added to the other's figure, whose Factor is then 1
	Why    string  // what keeps who from it, shown where it is missed
}

// A Row is a work, who does it and what is asked of whom.
type Row struct {
	Work
	Who    []Contender
	Bounds []Bound
	Length time.Duration // of a round
	// Patience is how much longer a round may take: a contender that hangs must not
	// keep the others from their turns. 0 means 10 s.
	Patience time.Duration
}

// A Part is what is measured on one kind of server.
type Part struct {
	Name  string
	About []string // the server and its version, what else a reader must know
	PIDs  []int    // of the servers: what they use of the machine is no disturbance
	Rows  []Row
}
