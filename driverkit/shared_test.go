package driverkit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Callers come while a call is under way. They share one that begins after all of them came.
func TestCallersShareACallThatBeginsAfterTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Shared[time.Time]
		calls := 0
		call := func(context.Context) (time.Time, error) {
			calls++
			begun := time.Now()
			time.Sleep(time.Second)
			return begun, nil
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				came := time.Now()
				if begun, err := g.Do(t.Context(), "key", call); err != nil || begun.Before(came) {
					t.Errorf("asked at %v, and the answer is of %v, %v", came, begun, err)
				}
			})
			time.Sleep(time.Second / 30)
		}
		all.Wait()
		if calls > 6 || len(g.byKey) != 0 {
			t.Errorf("%d calls in 4.3 seconds, %d keys are left", calls, len(g.byKey))
		}
	})
}

func TestCallersForDifferentKeysShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Shared[string]
		begun := time.Now()
		var all sync.WaitGroup
		for _, key := range []string{"one", "another"} {
			all.Go(func() {
				got, err := g.Do(t.Context(), key, func(context.Context) (string, error) {
					time.Sleep(time.Second)
					return key, nil
				})
				if got != key || err != nil {
					t.Errorf("%q for %q, %v", got, key, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// The caller that makes the call gives up, and so does one that waits. The others have their
// answer; an error that is the call's own is theirs too.
func TestACallerThatGivesUpTakesNoAnswerFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Shared[int]
		refused := errors.New("refused")
		calls := 0
		call := func(ctx context.Context) (int, error) {
			calls++
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if calls > 3 {
				return 0, refused
			}
			return calls, nil
		}
		errs := make([]error, 6)
		var all sync.WaitGroup
		for i := range errs {
			ctx := t.Context()
			if i == 0 || i == 1 || i == 3 { // the first one calls alone, and the second one for all
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 1500*time.Millisecond)
				defer cancel()
			}
			all.Go(func() { _, errs[i] = g.Do(ctx, "key", call) })
			synctest.Wait()
		}
		all.Wait()
		for i, err := range errs {
			if want := i == 1 || i == 3; errors.Is(err, context.DeadlineExceeded) != want || !want && err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if _, err := g.Do(t.Context(), "key", call); err != refused || calls != 4 {
			t.Errorf("call %d: %v", calls, err)
		}
	})
}
