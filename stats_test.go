package pawl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// recorded is an observer that keeps the events of the kinds that are not repeated.
type recorded struct {
	mu  sync.Mutex
	all []Event
}

func (o *recorded) Observe(e Event) {
	if e.Kind != Renewed && e.Kind != InDoubt {
		o.mu.Lock()
		o.all = append(o.all, e)
		o.mu.Unlock()
	}
}

func (o *recorded) take() (all []Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all, o.all = o.all, nil
	return all
}

func (o *recorded) expect(t *testing.T, kinds ...Kind) []Event {
	t.Helper()
	all := o.take()
	var got []Kind
	for _, e := range all {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, kinds) {
		t.Fatalf("events %v, want %v", got, kinds)
	}
	return all
}

func TestAWaitThatEndsWithoutTheLockIsToldAsGaveUp(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		for _, opts := range [][]Option{nil, {WithFair()}, {WithoutRenewal()}} {
			_, err := c.Mutex("a", append(opts, WithWait(time.Second))...).Lock(t.Context())
			wantErr(t, err, ErrHeld)
			got := seen.expect(t, Waiting, GaveUp)
			if e := got[1]; !errors.Is(e.Err, ErrHeld) || e.Took < time.Second || e.Name != "a" || e.ID == "" || e.ID != got[0].ID {
				t.Errorf("%+v", e)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 3 { // one in the engine's line, two in the gate's
			all.Go(func() { _, _ = c.Mutex("a").Lock(ctx) })
		}
		synctest.Wait()
		if st := c.Stats(); st.WaitingNow != 3 {
			t.Errorf("%+v", st)
		}
		all.Wait()
		for i, e := range seen.expect(t, Waiting, Waiting, Waiting, GaveUp, GaveUp, GaveUp) {
			if i >= 3 && !errors.Is(e.Err, context.DeadlineExceeded) {
				t.Errorf("%+v", e)
			}
		}
		_, err := c.Mutex("a").TryLock(t.Context())
		wantErr(t, err, ErrHeld)
		if e := seen.expect(t, Refused)[0]; !errors.Is(e.Err, ErrHeld) || e.Name != "a" { // it did not wait
			t.Errorf("%+v", e)
		}
		l.Unlock()
	}, WithObserver(&seen))
}

func TestEventsCarryModeAndPermits(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		for _, tc := range []struct {
			lock    func(context.Context) (*Lease, error)
			mode    Mode
			permits int
		}{
			{c.Mutex("m").Lock, Exclusive, 0},
			{c.RWMutex("rw").Lock, Exclusive, 0},
			{c.RWMutex("rw").RLock, Shared, 0},
			{func(ctx context.Context) (*Lease, error) { return c.Semaphore("s", 5).Acquire(ctx, 3) }, Counted, 3},
			{func(ctx context.Context) (*Lease, error) { return c.Semaphore("t", 1).Acquire(ctx, 1) }, Counted, 1},
		} {
			must(t)(tc.lock(t.Context())).Unlock()
			for _, e := range seen.expect(t, Acquired, Released) {
				if e.Mode != tc.mode || e.Permits != tc.permits || e.Token == 0 {
					t.Errorf("%+v, want %v and %d permits", e, tc.mode, tc.permits)
				}
			}
		}
	}, WithObserver(&seen))
}

// A mutex and a semaphore of one permit are the same to the store.
func TestAHoldHasTheModeOfItsWait(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Semaphore("a", 1).Acquire(t.Context(), 1))
		next := queue(t, t.Context(), c.Mutex("a").Lock)
		l.Unlock()
		(<-next).Unlock()
		for _, e := range seen.expect(t, Acquired, Waiting, Released, Acquired, Released) {
			if mutex := e.Kind == Waiting || e.Token > l.Token(); mutex != (e.Mode == Exclusive) || mutex != (e.Permits == 0) {
				t.Errorf("%+v", e)
			}
		}
	}, WithObserver(&seen))
}

func TestEveryAcquiredIsFollowedByReleasedOrLost(t *testing.T) {
	var seen recorded
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.blackHole()
		<-l.Context().Done()
		r.heal()
		synctest.Wait()
		if e := seen.expect(t, Acquired, Lost)[1]; e.Cause != NotRenewed {
			t.Errorf("%+v", e)
		}
		must(t)(c.Mutex("b").Lock(t.Context()))
		c.Close()
		got := seen.expect(t, Acquired, Released)
		if !errors.Is(got[1].Err, ErrClosed) || got[1].Token != got[0].Token {
			t.Errorf("%+v", got[1])
		}
	}, WithObserver(&seen))
}

func TestAClosedClientHasNoSessions(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		must(t)(c.Mutex("a").Lock(t.Context()))
		c.Close()
		if got, want := c.Stats(), (Stats{Acquired: 1, Released: 1}); got != want {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestStatsCountWhatHappened(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		l := must(t)(m.Lock(t.Context()))
		next := queue(t, t.Context(), m.Lock)
		l.Unlock()
		l = <-next
		must(t)(c.LockAll(t.Context(), []string{"b", "c"}))
		time.Sleep(4 * time.Second) // one beat
		if got, want := c.Stats(), (Stats{Waiting: 1, Acquired: 3, HandedOver: 1, Renewed: 3, Released: 1, Held: 3, Sessions: 1}); got != want {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		r.set(func(r *faultEngine) {
			r.leave = func(context.Context, driver.Claim, func(context.Context) error) error { return driver.ErrUnreachable }
		})
		wantErr(t, l.Unlock(), ErrUnknown)
		if st := c.Stats(); st.Departures != 1 || st.Held != 2 {
			t.Errorf("%+v", st)
		}
		r.heal()
		c.Close()
		if st := c.Stats(); st.Acquired+st.HandedOver != st.Released+st.Lost || st.Held != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestDoHoldsWhatItSays(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		rw, sem := c.RWMutex("rw"), c.Semaphore("s", 3)
		for name, do := range map[string]func(context.Context, func(context.Context, *Lease) error) error{
			"RDo": rw.RDo, "Do": rw.Do,
			"Semaphore.Do": func(ctx context.Context, fn func(context.Context, *Lease) error) error { return sem.Do(ctx, 2, fn) },
		} {
			failed := errors.New("failed")
			err := do(t.Context(), func(ctx context.Context, l *Lease) error {
				line, err := c.Line(ctx, l.Name())
				if err != nil || len(line) != 1 || !line[0].Held {
					t.Errorf("%s: %+v, %v", name, line, err)
				}
				return failed
			})
			wantErr(t, err, failed)
			if n := listed(t, c); n != 0 {
				t.Errorf("%s: %d claims left", name, n)
			}
		}
		_ = rw.RDo(t.Context(), func(context.Context, *Lease) error { // readers beside each other, no writer
			must(t)(second(t, c).RWMutex("rw").TryRLock(t.Context())).Unlock()
			_, err := second(t, c).RWMutex("rw").TryLock(t.Context())
			wantErr(t, err, ErrHeld)
			return nil
		})
	})
}
