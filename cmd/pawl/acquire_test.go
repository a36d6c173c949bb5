package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A slowEngine delays its answer to the first Enter, as a store does at the end of
// an outage.
type slowEngine struct {
	driver.Engine
	late time.Duration
}

type slowSession struct {
	driver.Session
	e *slowEngine
}

func (e *slowEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	return slowSession{s, e}, err
}

func (s slowSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.Session.Enter(ctx, c)
	time.Sleep(s.e.late)
	s.e.late = 0
	return st, err
}

func TestACommandIsNotStartedOnALeaseThatIsAlmostOver(t *testing.T) {
	for _, late := range []time.Duration{0, 7 * time.Second, 8 * time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			engine := memlock.New()
			defer engine.Close()
			c := pawl.New(&slowEngine{Engine: engine, late: late}, pawl.WithTTL(10*time.Second))
			defer c.Close()
			j := &job{app: &app{err: io.Discard}, name: "x", killAfter: 4 * time.Second}
			lease, err := j.takeWithTimeLeft(t.Context(), c, false)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(lease.Deadline()); left <= j.killAfter {
				t.Errorf("granted %v late, started with %v left; stopping takes %v", late, left, j.killAfter)
			}
			if err := lease.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAWaitThatEndsWhileTheStoreIsAwayIsNotBusy(t *testing.T) {
	held := &pawl.HeldError{Err: context.DeadlineExceeded}
	if code := exitCodeOf(waitTimedOut(held, pawl.ErrHeld)); code != exitBusy {
		t.Errorf("a lock that was held until the end: exit %d", code)
	}
	if code := exitCodeOf(waitTimedOut(errors.Join(held, driver.ErrUnreachable), pawl.ErrHeld)); code != exitUnavailable {
		t.Errorf("a store that was away at the end: exit %d", code)
	}
}
