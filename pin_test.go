package pawl

import (
	"errors"
	"testing"
	"time"
)

func TestAPinnedHoldGoesBackToTheStore(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		m := c.Mutex("a")
		first := must(t)(m.Lock(t.Context()))
		next := queue(t, t.Context(), m.Lock)
		if turn, err := first.Pin(); turn != 0 || err != nil {
			t.Errorf("turn %d, %v", turn, err)
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		l := <-next
		if l.ID() == first.ID() || l.Fence() <= first.Fence() || enters.Load() != 2 {
			t.Errorf("passed on: fence %d after %d, %d enters", l.Fence(), first.Fence(), enters.Load())
		}
		l.Unlock()
	})
}

// A process that guards once mostly does so again.
func TestAfterAPinNothingIsPassedOnForATTL(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		handover := func(pin bool) (passed bool) {
			first := must(t)(m.Lock(t.Context()))
			next := queue(t, t.Context(), m.Lock)
			if pin {
				_, err := first.Pin()
				wantErr(t, err, nil)
			}
			first.Unlock()
			l := <-next
			l.Unlock()
			return l.ID() == first.ID()
		}
		for i, step := range []struct {
			wait time.Duration
			pin  bool
			want bool
		}{{0, false, true}, {0, true, false}, {5 * time.Second, false, false}, {6 * time.Second, false, true}} {
			time.Sleep(step.wait)
			if passed := handover(step.pin); passed != step.want {
				t.Errorf("step %d: passed on %v", i, passed)
			}
		}
	}, WithTTL(10*time.Second))
}

func TestALeaseThatHasEndedCannotBePinned(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		first := must(t)(m.Lock(t.Context()))
		next := queue(t, t.Context(), m.Lock)
		first.Unlock()
		l := <-next
		_, err := first.Pin()
		wantErr(t, err, ErrReleased)
		last := queue(t, t.Context(), m.Lock)
		l.Unlock()
		if got := <-last; got.ID() != l.ID() {
			t.Error("the pin of a lease that has ended holds up the next")
		} else {
			got.Unlock()
		}
		c.Close()
		_, err = l.Pin()
		wantErr(t, err, ErrReleased)
	})
}

func TestAPinTellsHowManyLeasesOfTheHoldHaveEnded(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		want := func(l *Lease, want int) {
			t.Helper()
			if turn, err := l.Pin(); turn != want || err != nil {
				t.Errorf("turn %d, not %d; %v", turn, want, err)
			}
		}
		first := must(t)(m.Lock(t.Context()))
		next := queue(t, t.Context(), m.Lock)
		first.Unlock()
		outer := <-next
		want(outer, 1)
		inner := must(t)(m.Lock(outer.Context()))
		deep := must(t)(m.Lock(inner.Context()))
		want(inner, 1)
		want(deep, 1)
		deep.Unlock()
		inner.Unlock()
		inner = must(t)(m.Lock(outer.Context()))
		want(inner, 3)
		want(outer, 1)
		inner.Unlock()
		outer.Unlock()
		several, err := c.LockAll(t.Context(), []string{"b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range several.Grants() {
			want(g.(*Lease), 0)
		}
		if _, err := several.Pin(); !errors.Is(err, ErrInvalid) {
			t.Errorf("Pin of several names: %v", err)
		}
		several.Unlock()
	}, WithReentry())
}
