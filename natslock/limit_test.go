package natslock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestALimitedContextEndsWithItsParentOrAtItsTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancelAfter, deadline, wait time.Duration // 0: never
		ends                        time.Duration
		err                         error
	}{
		"at its time":               {wait: time.Second, ends: time.Second, err: context.DeadlineExceeded},
		"a time that is very short": {wait: time.Millisecond, ends: time.Millisecond, err: context.DeadlineExceeded},
		"at its parent's":           {deadline: 300 * time.Millisecond, wait: time.Second, ends: 300 * time.Millisecond, err: context.DeadlineExceeded},
		"cancelled late":            {cancelAfter: 200 * time.Millisecond, wait: time.Second, ends: 200 * time.Millisecond, err: context.Canceled},
		"cancelled soon":            {cancelAfter: time.Millisecond, wait: time.Second, ends: slow, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancelAfter > 0 {
					time.AfterFunc(c.cancelAfter, cancel)
				}
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begun := time.Now()
				l := limit(ctx, c.wait)
				if err := l.Err(); err != nil {
					t.Errorf("at once: %v", err)
				}
				<-l.Done()
				if took := time.Since(begun); took != c.ends || !errors.Is(l.Err(), c.err) {
					t.Errorf("ended after %v with %v", took, l.Err())
				}
				l.end()
			})
		})
	}
}

// synctest fails where a goroutine stays.
func TestALimitedContextLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, slow / 2, slow, 5 * slow} {
		synctest.Test(t, func(t *testing.T) {
			l := limit(t.Context(), time.Hour)
			time.Sleep(after)
			l.end()
		})
	}
}
