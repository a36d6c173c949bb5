package pawl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLockingWhatOnesOwnContextHoldsIsAnErrorAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		_, err := c.Mutex("a").Lock(l.Context())
		wantErr(t, err, ErrReentry)
		_, err = c.RWMutex("a").Lock(l.Context()) // another kind of the same name would wait for ever too
		wantErr(t, err, ErrReentry)
		inner := must(t)(c.Mutex("b").Lock(l.Context()))
		_, err = c.Mutex("a").TryLock(inner.Context()) // found through the lease between
		wantErr(t, err, ErrReentry)
		inner.Unlock()
		l.Unlock()
		must(t)(c.Mutex("a").Lock(context.WithoutCancel(l.Context()))).Unlock() // a released lease owns nothing
	})
}

func TestReentryIsReleasedWithTheLastHold(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		if inner.Token() != outer.Token() {
			t.Error("re-entry changed the token")
		}
		if err := outer.Unlock(); err != nil {
			t.Fatal(err)
		}
		if inner.Err() != nil || listed(t, c) != 1 {
			t.Error("given back while one lease was left")
		}
		if err := inner.Unlock(); err != nil {
			t.Fatal(err)
		}
		if listed(t, c) != 0 {
			t.Error("not given back")
		}
	})
}

// Two goroutines with one lease's context still exclude each other.
func TestOneNestedExclusiveLeaseAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		one := must(t)(m.Lock(outer.Context()))
		_, err := m.TryLock(outer.Context())
		wantErr(t, err, ErrHeld)
		two := queue(t, outer.Context(), m.Lock)
		select {
		case <-two:
			t.Fatal("two nested at a time")
		default:
		}
		deeper := must(t)(m.Lock(one.Context()))
		deeper.Unlock()
		one.Unlock()
		(<-two).Unlock()
		outer.Unlock()
	})
}

// A job that took the context along without its end nests for ever, if the
// context decided; the lease's state does.
func TestADetachedContextOwnsNothingAfterTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		l := must(t)(m.Lock(t.Context()))
		job := context.WithoutCancel(l.Context())
		l.Unlock()
		rival := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		_, err := m.TryLock(job)
		wantErr(t, err, ErrHeld)
		rival.Unlock()
	})
}

func TestAnotherClientAsksItsOwnStore(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a", WithReentry()).Lock(t.Context()))
		_, err := second(t, c).Mutex("a", WithReentry()).TryLock(l.Context())
		wantErr(t, err, ErrHeld)
		l.Unlock()
	})
}

func TestPermitsAreNeverReentered(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		s := c.Semaphore("s", 2, WithReentry())
		a := must(t)(s.Acquire(t.Context(), 1))
		b := must(t)(s.Acquire(a.Context(), 1))
		_, err := s.TryAcquire(b.Context(), 1)
		wantErr(t, err, ErrHeld)
		a.Unlock()
		b.Unlock()
	})
}

func TestReadInsideWriteNestsAndWriteInsideReadIsAnUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		rw := c.RWMutex("a", WithReentry())
		w := must(t)(rw.Lock(t.Context()))
		r1, r2 := must(t)(rw.RLock(w.Context())), must(t)(rw.RLock(w.Context()))
		_, err := rw.Lock(r1.Context())
		wantErr(t, err, ErrUpgrade)
		again := queue(t, w.Context(), rw.Lock)
		r1.Unlock()
		select {
		case <-again:
			t.Fatal("writes beside a reader")
		default:
		}
		r2.Unlock()
		(<-again).Unlock()
		w.Unlock()
		r := must(t)(c.RWMutex("a").RLock(t.Context()))
		_, err = c.RWMutex("a").Lock(r.Context())
		wantErr(t, err, ErrUpgrade)
		r.Unlock()
	})
}

func TestLossEndsNestedLeasesAndTheirWaiters(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		failed := make(chan error)
		go func() {
			_, err := m.Lock(context.WithoutCancel(outer.Context()))
			failed <- err
		}()
		synctest.Wait()
		r.blackHole()
		wantErr(t, <-failed, ErrLost)
		wantErr(t, context.Cause(inner.Context()), ErrLost)
		wantErr(t, outer.Unlock(), ErrLost)
		wantErr(t, inner.Unlock(), ErrLost)
		r.heal()
		time.Sleep(10 * time.Second)
	})
}
