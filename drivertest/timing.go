package drivertest

import "time"

// promptly fails the case if run takes longer than soon.
func (f *fixture) promptly(what string, run func()) {
	f.Helper()
	start := time.Now()
	run()
	if took := time.Since(start); took > soon {
		f.Fatalf("%s took %v; it has nothing to wait for", what, took)
	}
}

// eventually polls until there reports true, for events that only the clock brings
// about. It fails the case if that takes longer than within.
func (f *fixture) eventually(within time.Duration, what string, there func() bool) {
	f.Helper()
	for start := time.Now(); !there(); time.Sleep(f.ttl / 20) {
		if late := time.Since(start); late > within {
			f.Fatalf("%s: not there after %v", what, late)
		}
	}
}

// finishes runs a call that never returns if the engine ignores its ctx, and
// reports whether it returned. A call that did not return is abandoned and the case
// has failed.
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

// soon bounds everything that should happen without waiting for a timer. It is
// generous because real machines stall, but a small part of longTTL, which is what
// a missed notice costs.
const soon = 5 * time.Second

// teardownTimeout bounds the teardown of a case. It is longer than a client waits
// for a store.
const teardownTimeout = 30 * time.Second

// longTTL is the TTL of claims that should not expire: no case takes that long. See
// also Harness.MaxTTL.
const longTTL = 2 * time.Minute

// waitClosed waits until a client closes done by itself.
func (f *fixture) waitClosed(what string, done <-chan struct{}, within time.Duration) {
	f.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		f.Fatalf("%s: not within %v", what, within)
	}
}
