package pawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// The session dies: while one lease's observer is told, another claim of the
// session moves to a new session and is granted.
func TestTheEndOfASessionLeavesAClaimThatMovedOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		r := &faultEngine{Engine: memlock.New(), lost: lost}
		again := make(chan struct{})
		ob := ObserverFunc(func(e Event) {
			if e.Kind == Lost {
				<-again // until the other has its lock
			}
		})
		c := New(r, WithFair())
		defer c.Close()
		must(t)(c.Mutex("x", WithObserver(ob)).Lock(t.Context()))
		d := New(r.Engine)
		defer d.Close()
		rival := must(t)(d.Mutex("a").Lock(t.Context()))
		got := queue(t, t.Context(), c.Mutex("a").Lock)
		r.lost = nil // of the next session
		close(lost)  // the store itself tells that the session has ended
		synctest.Wait()
		rival.Unlock()
		l := <-got // by a new session
		close(again)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Errorf("a healthy lease of the new session: %v", err)
		}
	})
}

// Unlock of a lease without renewal, on a store that takes 5 ms to answer.
func TestUnlockOfALeaseWithoutRenewalIsNotCalledOff(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.leave = func(ctx context.Context, _ driver.Claim, next func(context.Context) error) error {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
				return next(ctx)
			}
		})
		l := must(t)(c.Mutex("a", WithoutRenewal()).Lock(t.Context()))
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A sweep meets an Unlock under way.
func TestASweepDoesNotMakeUnlockReportALoss(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		lostEnter(t, c, r)
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		var first atomic.Bool
		r.set(func(r *faultEngine) {
			r.leave = func(ctx context.Context, cl driver.Claim, next func(context.Context) error) error {
				if cl.ID == l.ID() && !first.Swap(true) {
					time.Sleep(4 * time.Second) // Unlock's own Leave is slow
				}
				return next(ctx)
			}
		})
		time.Sleep(8 * time.Second) // the sweep comes a TTL after the lost Enter
		if err := l.Unlock(); err != nil {
			t.Errorf("it was ours all the time: %v", err)
		}
	})
}

// A sweep ends a claim whose maximum hold is over, before its margin is.
func TestASweepDoesNotCutTheMarginOfMaxHold(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		start := time.Now()
		lostEnter(t, c, r)
		var left time.Duration
		r.set(func(r *faultEngine) {
			r.leave = func(ctx context.Context, _ driver.Claim, next func(context.Context) error) error {
				err := next(ctx)
				if err == nil {
					left = time.Since(start)
				}
				return err
			}
		})
		time.Sleep(5 * time.Second)
		l := must(t)(c.Mutex("a", WithMaxHold(4900*time.Millisecond)).Lock(t.Context()))
		<-l.Context().Done()
		over := time.Since(start) // 10.9 s; the sweep comes at 11 s
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if left-over < 500*time.Millisecond {
			t.Errorf("ended at %v, left at %v", over, left)
		}
	})
}

// The leaving list in an outage: connection refused, a TryLock every 100 ms.
func TestTheLeavingListIsBoundedInAnOutage(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("contact").Lock(t.Context())).Unlock()
		var leaves atomic.Int64
		r.set(func(r *faultEngine) {
			r.enter = func(context.Context, driver.Claim, enterFunc) (driver.Standing, error) {
				return driver.Standing{}, driver.ErrUnreachable
			}
			r.leave = func(context.Context, driver.Claim, func(context.Context) error) error {
				leaves.Add(1)
				return driver.ErrUnreachable
			}
			r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
				return driver.ErrUnreachable
			}
		})
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			c.Mutex("a").TryLock(t.Context())
		}
		before := leaves.Load()
		time.Sleep(time.Second)
		for s := range c.sessions {
			s.mu.Lock()
			if n := len(s.departures.all); n > 500 { // more than two TTLs' worth
				t.Errorf("%d departures, %d leaves in the last second", n, leaves.Load()-before)
			}
			s.mu.Unlock()
		}
		r.heal()
	})
}

// LockAll goes on waiting after a part was lost.
func TestLockAllEndsWhenANameWasLost(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		other := second(t, c)
		must(t)(other.Mutex("b").Lock(t.Context()))
		done := make(chan error, 1)
		go func() {
			_, err := c.LockAll(t.Context(), []string{"a", "b"})
			done <- err
		}()
		synctest.Wait()
		for e := range c.List(t.Context(), "a") {
			c.Evict(t.Context(), e)
		}
		time.Sleep(time.Hour)
		select {
		case <-done:
		default:
			t.Error("waits for b an hour after a was lost")
		}
	})
}

// Unlock of several names in a black hole.
func TestUnlockOfManyNamesBlocksNoLongerThanOfOne(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.LockAll(t.Context(), []string{"a", "b", "c", "d", "e"}))
		r.blackHole()
		start := time.Now()
		err := l.Unlock()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("blocked for %v: %v", took, err)
		}
		r.heal()
	}, WithTTL(time.Minute))
}

// A part given back by itself.
func TestUnlockAfterAPartWasUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.LockAll(t.Context(), []string{"a", "b"}))
		l.Parts()[0].Unlock()
		err := l.Unlock()
		t.Log(err)
		if errors.Is(err, ErrReleased) {
			t.Errorf("ErrReleased is a cause, not an answer of Unlock: %v", err)
		}
	})
}

// Unlock and Close at once.
func TestCloseDoesNotCallOffAnUnlock(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.leave = func(ctx context.Context, _ driver.Claim, next func(context.Context) error) error {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
				return next(ctx)
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		got := make(chan error, 1)
		go func() { got <- l.Unlock() }()
		time.Sleep(time.Millisecond)
		c.Close()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A claim that the store will not let go of, for good.
func TestALeaveThatIsDeniedIsNotRepeatedForEver(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var n atomic.Int64
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.leave = func(context.Context, driver.Claim, func(context.Context) error) error {
				n.Add(1)
				return driver.ErrDenied
			}
		})
		l.Unlock()
		time.Sleep(time.Hour)
		if n.Load() > 1000 {
			t.Errorf("%d leaves of a claim that ended by itself after 10 s", n.Load())
		}
	})
}

// A second Close does not wait for the first.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				time.Sleep(time.Second)
				return next(ctx)
			}
		})
		go c.Mutex("b").Lock(t.Context())
		synctest.Wait()
		var wg sync.WaitGroup
		wg.Go(func() { c.Close() })
		synctest.Wait()
		c.Close()
		if l.Err() == nil {
			t.Error("closed, and the lease is alive")
		}
		wg.Wait()
	})
}
