package rueidis

import (
	"context"
	"errors"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// passed is a ctx whose deadline has passed but which has not ended.
type passed struct{ context.Context }

func (passed) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

var ping = redisclient.Call{Name: "PING"}

// rueidis closes a connection on which it is given a deadline that has passed, and with it
// the calls that follow would be lost.
func TestACallThatIsTooLateDoesNotCostTheConnection(t *testing.T) {
	t.Parallel()
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{testserver.Redis(t).Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(own, true)
	defer c.Close()
	p := c.pipelines[0]
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		if p.conn == nil {
			p.connectLocked()
		}
		ready := p.conn != nil
		p.mu.Unlock()
		if ready {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("no connection")
		}
	}
	conn := p.conn
	if _, err := c.Do(passed{t.Context()}, ping); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is too late: %v", err)
	}
	if r, err := c.Do(t.Context(), ping); err != nil || r.Text != "PONG" {
		t.Errorf("the call behind it: %+v, %v", r, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != conn || p.busy {
		t.Errorf("another connection, or none; busy %v", p.busy)
	}
}
