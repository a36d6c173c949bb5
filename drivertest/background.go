package drivertest

import "time"

// A task is a goroutine of the case; the end of the case waits for it.
type background struct {
	s    *fixture
	done chan struct{} // closed by the goroutine
	err  error
}

func (f *fixture) inBackground(run func() error) *background {
	k := &background{s: f, done: make(chan struct{})}
	f.goroutines.Go(func() {
		defer close(k.done)
		k.err = run()
	})
	return k
}

// wait fails the case if the task failed or does not end while the case lasts.
func (k *background) wait(what string) {
	k.s.Helper()
	select {
	case <-k.done:
	case <-k.s.ctx.Done():
		k.s.Fatalf("%s: still not done when the case had to end", what)
	}
	if k.err != nil {
		k.s.Fatalf("%s: %v", what, k.err)
	}
}

// promptly fails the case if run takes longer than soon.
func (f *fixture) promptly(what string, run func()) {
	f.Helper()
	start := time.Now()
	run()
	if took := time.Since(start); took > soon {
		f.Fatalf("%s took %v; it has nothing to wait for", what, took)
	}
}

// eventually looks until there is what a clock alone brings about, and fails the
// case if that takes longer than within.
func (f *fixture) eventually(within time.Duration, what string, there func() bool) {
	f.Helper()
	for start := time.Now(); !there(); time.Sleep(f.ttl / 20) {
		if late := time.Since(start); late > within {
			f.Fatalf("%s: not there after %v", what, late)
		}
	}
}

// within runs what an engine that ignores its ctx may never let come back, and
// reports whether it did. What did not is left behind in a case that has failed.
func (f *fixture) finishes(what string, run func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	timer := time.NewTimer(teardownTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		f.Errorf("%s: not within %v after the ctx of all calls has ended", what, teardownTimeout)
		return false
	}
}
