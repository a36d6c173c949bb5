package stalltest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A testReport records the failures of a test without ending it.
type testReport struct {
	testing.TB
	failed bool
}

func (r *testReport) Helper()               {}
func (r *testReport) Logf(string, ...any)   {}
func (r *testReport) Errorf(string, ...any) { r.failed = true }

func TestWhatIsSlowByItselfFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, steps := &testReport{TB: t}, 0
		within(r, time.Second, "the answer came", func(w *Watch) time.Duration {
			steps++
			time.Sleep(2 * time.Second) // the watch runs meanwhile
			return 2 * time.Second
		})
		if !r.failed || steps != 1 {
			t.Errorf("failed %v after %d steps", r.failed, steps)
		}
	})
}

func TestAStepInWhichTheMachineStoodStillIsDoneAgain(t *testing.T) {
	r, steps := &testReport{TB: t}, 0
	within(r, time.Second, "the answer came", func(w *Watch) time.Duration {
		if steps++; steps > 2 {
			return 0
		}
		return pretendStall(w, 3*time.Second)
	})
	if r.failed || steps != 3 {
		t.Errorf("failed %v after %d steps", r.failed, steps)
	}
}

func TestAMachineThatAlwaysStandsStillFails(t *testing.T) {
	r, steps := &testReport{TB: t}, 0
	within(r, time.Second, "the answer came", func(w *Watch) time.Duration { steps++; return pretendStall(w, 3*time.Second) })
	if !r.failed || steps != attempts {
		t.Errorf("failed %v after %d steps", r.failed, steps)
	}
}

func TestAFailureCountsUnlessTheMachineStoodStill(t *testing.T) {
	for _, c := range []struct {
		still  time.Duration
		fails  int // how many of the first steps fail
		failed bool
		steps  int
	}{
		{still: 0, fails: 0, failed: false, steps: 1},
		{still: 0, fails: 1, failed: true, steps: 1},
		{still: 3 * time.Second, fails: 2, failed: false, steps: 3},
		{still: 3 * time.Second, fails: attempts - 1, failed: false, steps: attempts},
		{still: 3 * time.Second, fails: attempts, failed: true, steps: attempts},
	} {
		r, steps := &testReport{TB: t}, 0
		succeeds(r, time.Second, func(w *Watch) error {
			pretendStall(w, c.still)
			if steps++; steps > c.fails {
				return nil
			}
			return errors.New("it failed")
		})
		if r.failed != c.failed || steps != c.steps {
			t.Errorf("%+v: failed %v after %d steps", c, r.failed, steps)
		}
	}
}

// pretendStall makes a Watch believe that the machine stalled for d.
func pretendStall(w *Watch, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = w.last.Add(-d)
	return d
}
