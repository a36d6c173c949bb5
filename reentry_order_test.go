package pawl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/memlock"
)

// A waits in the nest of a lease that is given back meanwhile; W waits at the
// gate. The last nested lease is passed to W, and A nests in the claim that is W's now.
func TestNobodyNestsInAClaimThatWasPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		nested := make(chan *Lease, 1)
		go func() {
			l, _ := m.Lock(context.WithoutCancel(outer.Context()))
			nested <- l
		}()
		synctest.Wait()
		w := queue(t, t.Context(), m.Lock)
		outer.Unlock()
		inner.Unlock()
		synctest.Wait()
		b := <-w
		select {
		case a := <-nested:
			if a != nil && a.Err() == nil && b.Err() == nil {
				t.Errorf("both alive, tokens %d and %d", a.Token(), b.Token())
			}
		default: // it waits for its turn
		}
	})
}

// The same without a gate waiter: the claim is left, and the nested lease lives for ever.
func TestNobodyNestsInAClaimThatIsBeingLeft(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		slow := ObserverFunc(func(e Event) {
			if e.Kind == Released {
				time.Sleep(time.Millisecond)
			}
		})
		m := c.Mutex("a", WithReentry(), WithObserver(slow))
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		nested := make(chan *Lease, 1)
		go func() {
			l, _ := m.Lock(context.WithoutCancel(outer.Context()))
			nested <- l
		}()
		synctest.Wait()
		outer.Unlock()
		inner.Unlock()
		a := <-nested
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rival, err := second(t, c).Mutex("a").Lock(ctx)
		if err == nil && a != nil && a.Err() == nil && rival.Err() == nil {
			t.Errorf("both alive, tokens %d and %d", a.Token(), rival.Token())
			time.Sleep(time.Hour)
			t.Errorf("an hour later: %v", a.Err())
		}
	})
}

// Waiting in a nest whose owner was given back, when the claim is lost.
func TestLossEndsAWaitInTheNestOfAReleasedLease(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		done := make(chan error, 1)
		go func() {
			l, err := m.Lock(context.WithoutCancel(outer.Context()))
			if l != nil {
				l.Unlock()
			}
			done <- err
		}()
		synctest.Wait()
		outer.Unlock()
		r.blackHole()
		<-inner.Context().Done()
		inner.Unlock()
		r.heal()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-done:
			t.Log(err)
		default:
			t.Errorf("still waits, %d claims in the store", listed(t, c))
		}
	})
}

// a Lock that waited in the nest of a lease which was then simply given back
func TestAWaitInANestThatWasReleasedIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		inner := must(t)(m.Lock(outer.Context()))
		done := make(chan error, 1)
		go func() {
			_, err := m.Lock(context.WithoutCancel(outer.Context()))
			done <- err
		}()
		synctest.Wait()
		outer.Unlock()
		inner.Unlock()
		if err := <-done; errors.Is(err, ErrLost) {
			t.Errorf("nothing was lost: %v", err)
		}
	})
}

// Close while waiting in a nest.
func TestCloseEndsAWaitInANest(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		outer := must(t)(m.Lock(t.Context()))
		must(t)(m.Lock(outer.Context()))
		done := make(chan error, 1)
		go func() {
			_, err := m.Lock(outer.Context())
			done <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// A nest of three, the middle is given back first.
func TestANestIsFreeOnlyWhenAllInItIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a", WithReentry())
		l0 := must(t)(m.Lock(t.Context()))
		l1 := must(t)(m.Lock(l0.Context()))
		l2 := must(t)(m.Lock(l1.Context()))
		l1.Unlock()
		b, err := m.TryLock(l0.Context())
		if err == nil && b.Err() == nil && l2.Err() == nil {
			t.Error("two exclusive leases nested in one at once")
		}
	})
}

// Err after the deadline while another goroutine is busy ending the leases.
func TestErrIsLostWhileManyNestedLeasesAreBeingEnded(t *testing.T) {
	c := New(memlock.New())
	defer c.Close()
	var slept atomic.Int64
	c.asleep = func(time.Time) time.Duration { return time.Duration(slept.Load()) }
	for range 5 {
		rw := c.RWMutex("a", WithReentry())
		l := must(t)(rw.Lock(t.Context()))
		all := []*Lease{l}
		for range 10000 {
			all = append(all, must(t)(rw.RLock(l.Context())))
		}
		slept.Add(int64(time.Hour))
		var wg sync.WaitGroup
		wg.Go(func() { all[0].Err() })
		runtime.Gosched()
		var bad int
		for i := 0; i < 1000; i++ {
			if all[len(all)-1].Err() == nil {
				bad++
			}
		}
		wg.Wait()
		if bad > 0 {
			t.Errorf("Err was nil %d times an hour after the deadline", bad)
			return
		}
	}
}

// Two goroutines, no tricks: one gives the lease back, the other locks again
// with its context, a third waits at the gate.
func TestReentryRacesUnlock(t *testing.T) {
	c := New(memlock.New())
	defer c.Close()
	m := c.Mutex("a", WithReentry())
	for i := range 2000 {
		outer := must(t)(m.Lock(t.Context()))
		w := make(chan *Lease, 1)
		go func() {
			l, _ := m.Lock(t.Context())
			w <- l
		}()
		nested := make(chan *Lease, 1)
		start := make(chan struct{})
		go func() {
			<-start
			ctx, cancel := context.WithTimeout(outer.Context(), 50*time.Millisecond)
			defer cancel()
			l, _ := m.Lock(ctx)
			nested <- l
		}()
		go func() { <-start; outer.Unlock() }()
		close(start)
		a := <-nested
		if a == nil {
			(<-w).Unlock()
			continue
		}
		var b *Lease
		select {
		case b = <-w:
		case <-time.After(2 * time.Millisecond):
			a.Unlock()
			(<-w).Unlock()
			continue
		}
		if a.Err() == nil && b.Err() == nil {
			t.Fatalf("round %d: both alive, tokens %d and %d", i, a.Token(), b.Token())
		}
		a.Unlock()
		b.Unlock()
	}
}
