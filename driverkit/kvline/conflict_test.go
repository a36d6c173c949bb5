package kvline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// stale is a store that reads an old value and refuses every write, as a leader does that
// its followers have left.
type stale struct{ *memory }

func (stale) Put(context.Context, string, kvline.Value, time.Duration) (uint64, error) {
	return 0, kvline.ErrConflict
}

func TestACallThatMeetsNothingButConflictsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := kvline.New("memory", stale{newMemory()}, driver.Volatile)
		defer e.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := e.Open(ctx, driver.SessionOptions{ID: "one", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		st, err := s.Enter(ctx, driver.Claim{ID: "claim", Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter: %+v, %v", st, err)
		}
	})
}
