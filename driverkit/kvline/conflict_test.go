package kvline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// stale is a store that reads an old value and refuses every write to a line, as a leader does
// that its followers have left.
type stale struct{ *memory }

func (s stale) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	if strings.HasPrefix(key, "line.") {
		return 0, kvline.ErrConflict
	}
	return s.memory.Put(ctx, key, v, keep)
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
