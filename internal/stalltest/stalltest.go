// Package stalltest distinguishes a slow program from a machine that stalled.
package stalltest

import (
	"sync"
	"testing"
	"time"
)

const (
	interval  = 2 * time.Millisecond // how often a Watch reads the clock
	tolerance = 3 * time.Millisecond // a tick that is later than this is attributed to the machine
)

// A Watch adds up the time during which this process did not run: it reads the
// clock every few milliseconds, and when its ticks are late, so was everything
// else.
type Watch struct {
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex // guards what follows
	last time.Time
	lost time.Duration
}

// Start starts a Watch. End must be called.
func Start() *Watch {
	w := &Watch{stop: make(chan struct{}), last: time.Now()}
	w.ended.Go(w.watch)
	return w
}

func (w *Watch) watch() {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_ = w.Lost()
		case <-w.stop:
			return
		}
	}
}

// Lost returns how long the machine stalled since Start, including a tick that is
// overdue now.
func (w *Watch) Lost() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if over := now.Sub(w.last) - interval; over > tolerance {
		w.lost += over
	}
	w.last = now
	return w.lost
}

// End ends the Watch and returns what Lost would.
func (w *Watch) End() time.Duration {
	close(w.stop)
	w.ended.Wait()
	return w.Lost()
}

// attempts is how often Within and Succeeds run a step before they give up.
const attempts = 5

// Within runs step, which returns a duration that must not exceed limit. If it
// does, but would not have without the time for which the machine stalled, the step
// is repeated; after five such attempts the test fails.
func Within(t testing.TB, limit time.Duration, what string, step func() time.Duration) {
	t.Helper()
	within(t, limit, what, func(*Watch) time.Duration { return step() })
}

func within(t testing.TB, limit time.Duration, what string, step func(*Watch) time.Duration) {
	t.Helper()
	for n := 1; ; n++ {
		w := Start()
		took := step(w)
		lost := w.End()
		switch {
		case took <= limit:
			return
		case took-lost > limit:
			t.Errorf("%s after %v, at most %v; the machine stood still for %v of it", what, took, limit, lost)
			return
		case n == attempts:
			t.Errorf("%s after %v, at most %v; the machine stood still for %v of it, as in the %d times before", what, took, limit, lost, n-1)
			return
		}
		t.Logf("%s after %v, but the machine stood still for %v: again", what, took, lost)
	}
}

// Succeeds runs step, which must succeed. If it fails while the machine stalled for
// at least still, the step is repeated; after five such attempts the test fails.
func Succeeds(t testing.TB, still time.Duration, step func() error) {
	t.Helper()
	succeeds(t, still, func(*Watch) error { return step() })
}

func succeeds(t testing.TB, still time.Duration, step func(*Watch) error) {
	t.Helper()
	for n := 1; ; n++ {
		w := Start()
		err := step(w)
		lost := w.End()
		if err == nil {
			return
		}
		if n == attempts || lost < still {
			t.Errorf("%v; the machine stood still for %v, the %d. time", err, lost, n)
			return
		}
		t.Logf("%v; but the machine stood still for %v: again", err, lost)
	}
}
