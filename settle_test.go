package pawl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A wait of one call for several observers that are stuck is one wait.
func TestStuckObserversTogetherKeepACallForOneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		stuck := func() Option { return WithObserver(ObserverFunc(func(Event) { <-free })) }
		c := New(memlock.New(), stuck(), stuck(), stuck())
		begun := time.Now()
		must(t)(c.Mutex("a").Lock(t.Context()))
		if took := time.Since(begun); took > maxObserved {
			t.Errorf("Lock took %v", took)
		}
		close(free)
		c.Close()
	})
}

// An observer that is slow, and never stuck for long, has a queue that is always full.
func TestWaitsForASlowObserverAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := WithObserver(ObserverFunc(func(e Event) { time.Sleep(maxObserved * 9 / 10) }))
		c := New(memlock.New(), o)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for begun := time.Now(); time.Since(begun) < 12*time.Second; time.Sleep(maxObserved / 3) {
					must(t)(c.Semaphore("a", 100).Acquire(t.Context(), 1)).Unlock()
				}
			})
		}
		all.Wait()
		q := c.defaults.observers[0]
		q.mu.Lock()
		if len(q.waits) > maxQueued+1 {
			t.Errorf("%d waits are kept for %d events", len(q.waits), len(q.events))
		}
		q.mu.Unlock()
		c.Close()
		time.Sleep((maxQueued + 10) * maxObserved)
	})
}

// Close does not wait for one observer after the other, and tells the store first.
func TestCloseIsNotDelayedByObserversThatAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		c := New(memlock.New())
		for i := range 50 {
			o := WithObserver(ObserverFunc(func(e Event) {
				if e.Kind == Released {
					<-free
				}
			}))
			must(t)(c.Mutex(fmt.Sprint(i), o).Lock(t.Context()))
		}
		begun := time.Now()
		c.Close()
		if took := time.Since(begun); took > maxObserved {
			t.Errorf("Close took %v", took)
		}
		close(free)
	})
}

// A loss that came before Close is observed when Close returns.
func TestCloseWaitsForTheObserverOfALoss(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a", WithMaxHold(time.Second)).Lock(t.Context()))
		<-l.Context().Done()
		synctest.Wait()
		c.Close()
		seen.expect(t, Acquired, Lost)
	}, WithObserver(ObserverFunc(func(e Event) {
		time.Sleep(maxObserved / 10)
		seen.Observe(e)
	})))
}

// Also calls that acquire and give back nothing.
func TestACallReturnsOnceItsEventsWereObserved(t *testing.T) {
	var seen recorded
	renewed := make(chan struct{}, 1)
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		if err := l.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(renewed) != 1 {
			t.Error("Confirm did not wait for its observer")
		}
		l.Unlock()
		l = must(t)(c.Mutex("a", WithMaxHold(time.Nanosecond)).Lock(t.Context()))
		time.Sleep(time.Nanosecond)
		wantErr(t, l.Unlock(), ErrLost)
		seen.expect(t, Acquired, Released, Acquired, Lost)
	}, WithObserver(ObserverFunc(func(e Event) {
		time.Sleep(maxObserved / 10)
		seen.Observe(e)
		if e.Kind == Renewed {
			renewed <- struct{}{}
		}
	})))
}

func TestARefusedLockAllSaysHowLongItTook(t *testing.T) {
	var seen recorded
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.open = func(ctx context.Context, _ func() (driver.Session, error)) (driver.Session, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		_, err := c.LockAll(t.Context(), []string{"a", "b"}, WithWait(time.Second))
		wantErr(t, err, ErrHeld)
		if e := seen.expect(t, Refused)[0]; e.Took != time.Second {
			t.Errorf("%v", e.Took)
		}
	}, WithObserver(&seen))
}
