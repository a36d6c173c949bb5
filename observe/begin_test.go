package observe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe"
)

const roundTrip = 100 * time.Millisecond

// slowEngine takes a round trip for each Enter.
type slowEngine struct{ driver.Engine }

func (e slowEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	return slowSession{s}, err
}

type slowSession struct{ driver.Session }

func (s slowSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	time.Sleep(roundTrip)
	return s.Session.Enter(ctx, c)
}

// directWaits are told by the goroutine that waits.
type directWaits struct{ observe.Waits }

func (*directWaits) Direct() {}

// A wait is as old as its acquire: the round trip that found the lock held counts.
func TestAWaitIsAsOldAsItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := memlock.New()
		var direct directWaits
		var queued observe.Waits
		other, c := pawl.New(engine), pawl.New(slowEngine{engine}, pawl.WithObserver(&direct), pawl.WithObserver(&queued))
		held, err := other.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 3)
		for range 3 { // each ends with its lock
			go func() {
				l, err := c.Mutex("a").Lock(t.Context())
				if err == nil {
					err = l.Unlock()
				}
				ended <- err
			}()
			time.Sleep(time.Second)
		}
		for name, w := range map[string]*observe.Waits{"direct": &direct.Waits, "queued": &queued} {
			if w.Len() != 3 || w.Oldest() != 3*time.Second {
				t.Errorf("%s: %d wait, the oldest for %v, want 3 for 3s", name, w.Len(), w.Oldest())
			}
		}
		if err := held.Unlock(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if direct.Len() != 0 || queued.Len() != 0 || direct.Oldest() != 0 {
			t.Errorf("%d and %d still wait", direct.Len(), queued.Len())
		}
		for _, c := range []*pawl.Client{c, other} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
