// Package compare makes contenders do the same work alternately and compares them.
//
// A figure alone says little: it describes one machine on one day. So contenders
// alternate within one run, and what counts is the median of the ratios of adjacent
// rounds.
package compare

import (
	"context"
	"time"
)

// A Locker is one client of a lock, as one process would have it.
type Locker interface {
	// Lock waits for name and returns a function that releases it.
	Lock(ctx context.Context, name string) (unlock func() error, err error)
	Close() error
}

// A Contender does the work.
type Contender struct {
	Name string
	Open func(ctx context.Context) (Locker, error) // opens a new client each time
}

// A Unit is what a figure counts.
type Unit struct {
	Name  string // as in a Go benchmark: "locks/s"
	Fewer bool   // smaller is better
}

// A Work is a task and what is measured of it.
type Work struct {
	Name  string // one word, for flags and benchmark lines
	Does  string // one line, for tables
	Units []Unit // contenders are compared by the first
	// Begin opens the clients that c needs for the rounds.
	Begin func(ctx context.Context, c Contender) (Rounds, error)
}

// Rounds are one contender's rounds of a work.
type Rounds interface {
	// Round does the work once, for about length unless it has an end of its own,
	// and returns a figure for each unit.
	Round(ctx context.Context, length time.Duration) ([]float64, error)
	Close() error
}

// A Bound is what a contender must reach.
type Bound struct {
	Who    string
	Unit   int     // index of the work's unit
	Than   string  // the contender it is compared with; empty: none
	Factor float64 // multiple of the other's figure, or the figure itself
	AtMost bool    // an upper bound; otherwise a lower bound
	Plus   float64 // added to the other's figure, whose Factor is then 1
	Why    string  // why the bound is hard to reach, shown if it is missed
}

// A Row is a work, its contenders and their bounds.
type Row struct {
	Work
	Who    []Contender
	Bounds []Bound
	Length time.Duration // of a round
	// ExtraTime is how much longer a round may take: a contender that hangs must
	// not block the others. 0 means 10 s.
	ExtraTime time.Duration
}

// A Part is everything that is measured on one kind of server.
type Part struct {
	Name  string
	About []string // the server's version, and what else a reader must know
	PIDs  []int    // of the servers: their load is not a disturbance
	Rows  []Row
}
