// Package stalltest tells a program that was slow from a machine that stood still.
package stalltest

import (
	"sync"
	"testing"
	"time"
)

const (
	interval  = 2 * time.Millisecond // how often a Watch looks
	tolerance = 3 * time.Millisecond // a look that comes so much later is the machine's doing
)

// A Watch adds up the time for which this process was not served: it looks at the
// clock every few milliseconds, and what it misses everybody else missed too.
type Watch struct {
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex // guards what follows
	last time.Time
	lost time.Duration
}

// Start begins to watch. End must be called.
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

// Lost returns for how long the machine stood still since Start, a look that is
// overdue right now included.
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

// End ends the watch and returns what was lost.
func (w *Watch) End() time.Duration {
	close(w.stop)
	w.ended.Wait()
	return w.Lost()
}

// attempts are how often a step is done before Within and Succeeds give up.
const attempts = 5

// Within has step done, which returns how long that took which must not take
// longer than limit. A step that took longer, but would not have without what the
// machine stood still meanwhile, says nothing and is done again; a test in which
// that happens five times fails too.
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

// Succeeds has step done, which must not fail. A step that failed while the machine stood
// still for at least so long says nothing and is done again; a test in which that happens
// five times fails too.
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
