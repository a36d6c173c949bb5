package calm

import (
	"testing"
	"testing/synctest"
	"time"
)

// A report is a test's, and does not end it.
type report struct {
	testing.TB
	failed bool
}

func (r *report) Helper()               {}
func (r *report) Logf(string, ...any)   {}
func (r *report) Errorf(string, ...any) { r.failed = true }

func TestWhatIsSlowByItselfFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, steps := &report{TB: t}, 0
		within(r, time.Second, "the answer came", func(w *Watch) time.Duration {
			steps++
			time.Sleep(2 * time.Second) // the watch is served meanwhile
			return 2 * time.Second
		})
		if !r.failed || steps != 1 {
			t.Errorf("failed %v after %d steps", r.failed, steps)
		}
	})
}

func TestAStepInWhichTheMachineStoodStillIsDoneAgain(t *testing.T) {
	r, steps := &report{TB: t}, 0
	within(r, time.Second, "the answer came", func(w *Watch) time.Duration {
		if steps++; steps > 2 {
			return 0
		}
		return stoodStill(w, 3*time.Second)
	})
	if r.failed || steps != 3 {
		t.Errorf("failed %v after %d steps", r.failed, steps)
	}
}

func TestAMachineThatAlwaysStandsStillFails(t *testing.T) {
	r, steps := &report{TB: t}, 0
	within(r, time.Second, "the answer came", func(w *Watch) time.Duration { steps++; return stoodStill(w, 3*time.Second) })
	if !r.failed || steps != attempts {
		t.Errorf("failed %v after %d steps", r.failed, steps)
	}
}

// stoodStill makes a watch believe that it was not served for so long.
func stoodStill(w *Watch, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = w.last.Add(-d)
	return d
}
