package driverkit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// run runs n calls at the same time and waits for all of them.
func run(t *testing.T, p *Pool, n int) {
	t.Helper()
	var running atomic.Int32
	open := make(chan struct{})
	for range n {
		p.Do(func() { running.Add(1); <-open })
	}
	synctest.Wait()
	if got := running.Load(); got != int32(n) {
		t.Errorf("%d of %d calls run", got, n)
	}
	close(open)
	synctest.Wait()
}

func TestNoCallWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2)
		run(t, p, 10)
		run(t, p, 20)
		p.Close()
	})
}

func TestThePoolKeepsALimitedNumberOfGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(3)
		for _, step := range []struct{ calls, kept int32 }{{1, 1}, {2, 2}, {100, 3}, {2, 3}} {
			run(t, p, int(step.calls))
			if kept := p.idle.Load(); kept != step.kept {
				t.Errorf("after %d calls %d goroutines are kept, not %d", step.calls, kept, step.kept)
			}
		}
		p.Close() // or the test does not end
	})
}

func TestCloseWaitsForARunningCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(3)
		var ended, closed atomic.Bool
		open := make(chan struct{})
		p.Do(func() { <-open; ended.Store(true) })
		go func() { // ends with the call
			p.Close()
			closed.Store(true)
		}()
		synctest.Wait()
		if closed.Load() {
			t.Error("closed while a call runs")
		}
		close(open)
		synctest.Wait()
		if !ended.Load() || !closed.Load() {
			t.Errorf("ended %v, closed %v", ended.Load(), closed.Load())
		}
	})
}
