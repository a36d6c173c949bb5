package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/internal/claimset"

	"github.com/pawl-go/pawl/driver"
)

// counted counts the Enters that reach the engine.
func countEnters(r *faultEngine) *atomic.Int64 {
	var n atomic.Int64
	r.set(func(r *faultEngine) {
		r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
			n.Add(1)
			return next(ctx)
		}
	})
	return &n
}

// queue starts a goroutine that locks m, tells the lease, and is in line when
// queue returns.
func queue(t *testing.T, ctx context.Context, lock func(context.Context) (*Lease, error)) <-chan *Lease {
	got := make(chan *Lease, 1)
	go func() {
		l, err := lock(ctx)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		got <- l
	}()
	synctest.Wait()
	return got
}

func TestTheGatePassesALockOnWithoutARoundTrip(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		m := c.Mutex("a")
		first := must(t)(m.Lock(t.Context()))
		waiting := []<-chan *Lease{queue(t, t.Context(), m.Lock), queue(t, t.Context(), m.Lock), queue(t, t.Context(), m.Lock)}
		before := first
		for _, w := range waiting {
			if err := before.Unlock(); err != nil {
				t.Fatal(err)
			}
			l := <-w
			if l.ID() != first.ID() || l.Fence() != first.Fence() || l.Token() != before.Token()+1 {
				t.Errorf("token %d after %d", l.Token(), before.Token())
			}
			// Whoever guards with the lease it passed on is refused.
			wantErr(t, before.Err(), ErrReleased)
			before = l
		}
		if n := enters.Load(); n != 1 {
			t.Errorf("%d enters", n)
		}
		before.Unlock()
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims left", n)
		}
	})
}

func TestATurnEndsAfter20Milliseconds(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a")
		first := must(t)(m.Lock(t.Context()))
		local := queue(t, t.Context(), m.Lock)
		rival := queue(t, t.Context(), second(t, c).Mutex("a").Lock)
		time.Sleep(turnLength)
		first.Unlock()
		r := <-rival
		select {
		case <-local:
			t.Error("passed on after the turn")
		default:
		}
		r.Unlock()
		(<-local).Unlock()
	})
}

// A waiter behind a long hold must not wait in the process only: it would enter the
// engine's line behind processes that came later.
func TestALocalWaiterTakesItsPlaceInLineWhenTheTurnIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a")
		first := must(t)(m.Lock(t.Context()))
		local := queue(t, t.Context(), m.Lock)
		time.Sleep(30 * time.Millisecond)
		rival := queue(t, t.Context(), second(t, c).Mutex("a").Lock)
		time.Sleep(time.Second)
		first.Unlock()
		l := <-local
		select {
		case <-rival:
			t.Error("both hold")
		default:
		}
		l.Unlock()
		(<-rival).Unlock()
	})
}

func TestPassingStopsAtTheLastPass(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		m := c.Mutex("a")
		held := must(t)(m.Lock(t.Context()))
		seen := map[uint64]bool{held.Token(): true}
		for range 2 * claimset.MaxPass {
			w := queue(t, t.Context(), m.Lock)
			last := held.Token()
			held.Unlock()
			held = <-w
			if seen[held.Token()] || held.Token() <= last {
				t.Fatalf("token %d after %d", held.Token(), last)
			}
			seen[held.Token()] = true
		}
		if n := enters.Load(); n != 2 {
			t.Errorf("%d enters", n)
		}
	})
}

func TestALeaseInDoubtIsNotPassedOn(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a", WithTTL(30*time.Millisecond)) // beats within the turn
		held := must(t)(m.Lock(t.Context()))
		w := queue(t, t.Context(), m.Lock)
		r.set(func(r *faultEngine) {
			r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
				return driver.ErrUnreachable
			}
		})
		time.Sleep(12 * time.Millisecond)
		held.Unlock()
		if l := <-w; l.ID() == held.ID() {
			t.Error("passed on while in doubt")
		}
	})
}

// Readers, permits and writers beside them go to the engine each: a place of one
// kind must not be handed to another.
func TestOnlyExclusiveClaimsAreEverPassedOn(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		rw := c.RWMutex("a")
		reader := must(t)(rw.RLock(t.Context()))
		writer := queue(t, t.Context(), rw.Lock)
		reader.Unlock()
		w := <-writer
		if w.ID() == reader.ID() {
			t.Error("a reader's place went to a writer")
		}
		w.Unlock()
		sem := c.Semaphore("s", 2)
		a := must(t)(sem.Acquire(t.Context(), 1))
		must(t)(sem.Acquire(t.Context(), 1))
		waits := queue(t, t.Context(), func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 1) })
		a.Unlock()
		if l := <-waits; l.ID() == a.ID() || l.Fence() <= a.Fence() {
			t.Error("a permit was passed on")
		}
		if n := enters.Load(); n != 5 {
			t.Errorf("%d enters", n)
		}
	})
}

func TestFairHasNoGate(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		m := c.Mutex("a", WithFair())
		held := must(t)(m.Lock(t.Context()))
		w := queue(t, t.Context(), m.Lock)
		held.Unlock()
		if l := <-w; l.ID() == held.ID() || enters.Load() != 2 {
			t.Error("passed on inside the process")
		}
	})
}

// The goroutine that stands in line gives up: its place goes to the next of the
// process, not to the end of the line.
func TestAPlaceInLineIsBequeathed(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		holder := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		m := c.Mutex("a")
		ctx, cancel := context.WithCancel(t.Context())
		gives := queue(t, ctx, m.Lock)
		heir := queue(t, t.Context(), m.Lock)
		rival := queue(t, t.Context(), second(t, c).Mutex("a").Lock)
		cancel()
		if <-gives != nil {
			t.Fatal("locked")
		}
		holder.Unlock()
		l := <-heir
		select {
		case <-rival:
			t.Error("both hold")
		default:
		}
		l.Unlock()
		(<-rival).Unlock()
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims left", n)
		}
	})
}

func TestAWaiterWhoseContextEndsLeavesTheGate(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a")
		held := must(t)(m.Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		w := queue(t, ctx, m.Lock)
		cancel()
		if <-w != nil {
			t.Fatal("locked")
		}
		if err := held.Unlock(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, gates := listed(t, c), c.gatesInUse(); n != 0 || len(gates) != 0 {
			t.Errorf("%d claims and %d gates left", n, len(gates))
		}
	})
}

// Cancelling and being handed the lock in the same moment must lose neither the
// lock nor the line, whichever comes first.
func TestCancelRacesAHandover(t *testing.T) {
	for range 300 {
		bubble(t, func(t *testing.T, c *Client) {
			m := c.Mutex("a")
			held := must(t)(m.Lock(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			first, next := queue(t, ctx, m.Lock), queue(t, t.Context(), m.Lock)
			go cancel()
			go held.Unlock()
			if l := <-first; l != nil {
				l.Unlock()
			}
			(<-next).Unlock()
			synctest.Wait()
			if n := listed(t, c); n != 0 {
				t.Fatalf("%d claims left", n)
			}
		})
	}
}

func TestTryLockIsToldByTheGateWhoHolds(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		enters := countEnters(r)
		m := c.Mutex("a", WithNote("the cleaner"))
		held := must(t)(m.TryLock(t.Context()))
		_, err := m.TryLock(t.Context())
		wantErr(t, err, ErrHeld)
		if e, ok := errors.AsType[*HeldError](err); !ok || e.Holder == nil || e.Holder.Note != "the cleaner" || enters.Load() != 1 {
			t.Errorf("%v after %d enters", err, enters.Load())
		}
		held.Unlock()
		must(t)(m.TryLock(t.Context())).Unlock()
	})
}

func TestALostClaimFreesTheGate(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		held := must(t)(m.Lock(t.Context()))
		r.blackHole()
		w := queue(t, t.Context(), m.Lock)
		<-held.Context().Done()
		r.heal()
		l := <-w
		if l.Fence() <= held.Fence() {
			t.Error("the token did not grow")
		}
		wantErr(t, held.Unlock(), ErrLost)
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestGatesOfSeveralNamesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		for range 3 {
			a, b := must(t)(c.Mutex("a").Lock(t.Context())), must(t)(c.Mutex("b").Lock(t.Context()))
			if n := len(c.gatesInUse()); n != 2 {
				t.Errorf("%d gates in use, want 2", n)
			}
			for _, l := range []*Lease{a, b} {
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
			must(t)(c.Mutex("b").Lock(t.Context())).Unlock()
			if n := len(c.gatesInUse()); n != 0 || len(c.gates.byKey) != 0 {
				t.Errorf("%d gates in use and %d kept", n, len(c.gates.byKey))
			}
		}
	})
}
