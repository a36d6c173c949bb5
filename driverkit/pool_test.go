package driverkit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// run has n calls under way at once, lets them end and waits until all have.
func run(t *testing.T, c *Pool, n int) {
	t.Helper()
	var under atomic.Int32
	open := make(chan struct{})
	for range n {
		c.Do(func() { under.Add(1); <-open })
	}
	synctest.Wait()
	if got := under.Load(); got != int32(n) {
		t.Errorf("%d of %d calls are under way", got, n)
	}
	close(open)
	synctest.Wait()
}

func TestNoCallWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPool(2)
		run(t, c, 10)
		run(t, c, 20)
		c.Close()
	})
}

func TestSoManyGoroutinesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPool(3)
		for _, step := range []struct{ calls, kept int32 }{{1, 1}, {2, 2}, {100, 3}, {2, 3}} {
			run(t, c, int(step.calls))
			if kept := c.idle.Load(); kept != step.kept {
				t.Errorf("after %d calls %d goroutines are kept, not %d", step.calls, kept, step.kept)
			}
		}
		c.Close() // or the test does not end
	})
}

func TestCloseWaitsForACallThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPool(3)
		var ended, closed atomic.Bool
		open := make(chan struct{})
		c.Do(func() { <-open; ended.Store(true) })
		go func() { // ends with the call
			c.Close()
			closed.Store(true)
		}()
		synctest.Wait()
		if closed.Load() {
			t.Error("closed while a call goes on")
		}
		close(open)
		synctest.Wait()
		if !ended.Load() || !closed.Load() {
			t.Errorf("ended %v, closed %v", ended.Load(), closed.Load())
		}
	})
}
