package rueidis

import (
	"context"
	"errors"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/internal/testserver"
)

// passed is a ctx whose deadline has passed, and which does not say so yet.
type passed struct{ context.Context }

func (passed) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// A connection that is given a deadline which has passed is lost, and with it the
// trips of those who come next.
func TestACallThatIsTooLateDoesNotCostTheConnection(t *testing.T) {
	t.Parallel()
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{testserver.Redis(t).Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(own, true)
	defer c.Close()
	v := c.convoys[0]
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		v.mu.Lock()
		if v.d == nil {
			c.makeConvoyLocked(v)
		}
		ready := v.d != nil
		v.mu.Unlock()
		if ready {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("no connection")
		}
	}
	d := v.d
	if _, err := c.Do(passed{t.Context()}, "", []string{"PING"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is too late: %v", err)
	}
	if r, err := c.Do(t.Context(), "", []string{"PING"}); err != nil || r.Text != "PONG" {
		t.Errorf("the call behind it: %+v, %v", r, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.d != d || v.busy {
		t.Errorf("another connection, or none; busy %v", v.busy)
	}
}
