package verify

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/planted"
	"github.com/pawl-go/pawl/internal/history"
)

const (
	// patience is how long a planted bug may take to be found.
	patience = 2 * time.Minute

	// round is how long workers work before what they did is checked. A name may stay
	// free for two TTL and two seconds: a waiter that is stuck must wait for longer. Some
	// bugs show only in a round with a calm end.
	round     = 6 * time.Second
	longRound = 16 * time.Second

	// selfTestTTL is short, so that much expires in a round.
	selfTestTTL = time.Second / 2
)

// A Trial is one engine of a self-test.
type Trial struct {
	Bug   string // "" is the sound engine
	Text  string // what is wrong with it
	Found *history.Violation
	Err   error // why it could not run
	Took  time.Duration
}

// Passed reports whether a bug was found, or the sound engine was not found wrong.
func (t *Trial) Passed() bool { return t.Err == nil && (t.Bug == "") == (t.Found == nil) }

// soundTrials is how often the sound engine must pass.
const soundTrials = 24

// Trials returns the trials of a self-test: every planted bug, and between them the sound
// engine.
func Trials() (trials []Trial) {
	for i, b := range planted.Bugs() {
		trials = append(trials, Trial{Bug: b.Name, Text: b.Text})
		if i < soundTrials {
			trials = append(trials, Trial{})
		}
	}
	return trials
}

// Run runs a trial until its bug is found, or for two minutes at most; the sound engine for
// one round.
func (t *Trial) Run(ctx context.Context, c Config) {
	begun := time.Now()
	defer func() { t.Took = time.Since(begun) }()
	s, err := planted.Serve(t.Bug)
	if err != nil {
		t.Err = err
		return
	}
	defer s.Close()
	c.Planted, c.Prefix, c.Length, c.TTL, c.Faults = s.Addr(), "self-test/", round, selfTestTTL, FaultsOf("")
	for n := 1; n == 1 || t.Bug != "" && time.Since(begun)+c.Length < patience; n++ {
		var r *Result
		if r, t.Err = Run(ctx, c); t.Err != nil {
			return
		}
		if t.Found = r.Report.Gravest(); t.Found != nil {
			return
		}
		c.Seed++
		c.Length, c.Calm = longRound, true
		if n%3 == 0 {
			c.Length, c.Calm = round, false
		}
	}
}
