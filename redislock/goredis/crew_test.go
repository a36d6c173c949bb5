package goredis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestOneHandMakesCallAfterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		calls := 0
		for range 100 {
			if !c.within(t.Context(), func() { calls++ }) {
				t.Error("a call that ended is not known to have ended")
			}
			if len(c.idle) != 1 {
				t.Fatalf("%d hands are idle", len(c.idle))
			}
		}
		if calls != 100 {
			t.Errorf("%d calls were made", calls)
		}
		c.close() // or the test does not end
	})
}

// Whoever gives a call up goes at once. The hand that makes it is not given another.
func TestACallThatIsGivenUpEndsItsHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		ctx, cancel := context.WithCancel(t.Context())
		silent, ended := make(chan struct{}), false
		go cancel()
		if c.within(ctx, func() { <-silent; ended = true }) {
			t.Error("a call that goes on is said to have ended")
		}
		if !c.within(t.Context(), func() {}) || len(c.idle) != 1 {
			t.Errorf("%d hands are idle after another call", len(c.idle))
		}
		closed := false
		var tasks sync.WaitGroup
		tasks.Go(func() { c.close(); closed = true })
		synctest.Wait()
		if closed {
			t.Error("closed while a call went on")
		}
		close(silent)
		tasks.Wait()
		if !ended {
			t.Error("closed before the call had ended")
		}
	})
}

// Calls that come together are made together; of their hands only so many are kept.
func TestHandsAreNotKeptWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		var tasks sync.WaitGroup
		var under atomic.Int32
		open := make(chan struct{})
		for range 3 * spare {
			tasks.Go(func() { c.within(t.Context(), func() { under.Add(1); <-open }) })
		}
		synctest.Wait()
		if n := under.Load(); n != 3*spare {
			t.Errorf("%d calls are under way", n)
		}
		close(open)
		tasks.Wait()
		if len(c.idle) != spare {
			t.Errorf("%d hands are kept", len(c.idle))
		}
		c.close()
		if !c.within(t.Context(), func() {}) || len(c.idle) != 0 {
			t.Errorf("%d hands are kept after the end", len(c.idle))
		}
	})
}
