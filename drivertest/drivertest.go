// Package drivertest is the conformance suite for engines: the laws of package
// driver as cases that run against a real store.
//
// It cannot prove that an engine never breaks a law, only that it keeps the laws in
// the scenarios written down here. The suite does not kill, partition or restore
// stores: those tests need servers and a faulty network, and live next to each
// engine.
//
// An engine's own test file says how to open it and calls [Run]:
//
//	func TestLaws(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Open:   func(t *testing.T) driver.Engine { return open(t) },
//			MinTTL: 300 * time.Millisecond,
//		})
//	}
//
// A failing case prints the law that it checks. No case is skipped because the
// engine declares a feature absent: it then checks that the engine refuses the
// feature with driver.ErrUnsupported.
package drivertest

import (
	"context"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Harness tells the suite how to use an engine. Only Open is required.
type Harness struct {
	// Open returns an engine for one case. Cases may share a store and run at the
	// same time: the suite uses unique names. The suite closes the engine.
	Open func(t *testing.T) driver.Engine

	// Peer returns a second engine on e's store, as another process would have. If
	// it is set, every second session of a case is opened there.
	Peer func(t *testing.T, e driver.Engine) driver.Engine

	// Crash kills the client behind a session without closing it. The suite does
	// not use the session afterwards. If Crash is nil, the suite merely abandons
	// the session.
	Crash func(driver.Session)

	// Around runs one case, typically in synctest.Test. If it is nil, cases run in
	// parallel.
	Around func(*testing.T, func(*testing.T))

	// MinTTL is the shortest TTL that the engine keeps reliably on a busy machine;
	// cases in which something expires take a few times as long. The default is one
	// second.
	MinTTL time.Duration

	// MaxTTL is the longest TTL that the engine accepts; 0 means no limit.
	MaxTTL time.Duration

	// Seed determines the random histories and the lost replies, to reproduce a
	// failure. If it is 0, every run uses another seed. Cases that use the seed
	// print it.
	Seed uint64

	// DelayEnter delays the request of the next Enter on s: that call fails as if
	// its connection had broken. deliver sends the request on and returns once the
	// store has carried it out. Without DelayEnter the cases about delayed requests
	// do not run.
	DelayEnter func(t *testing.T, s driver.Session) (deliver func() error)

	// Clean returns an error if the case left anything in e's store that should be
	// gone.
	Clean func(t *testing.T, e driver.Engine) error

	// Stays reports whether a goroutine with this stack belongs to a client that
	// several cases share, so that it may outlive the case that started it.
	Stays func(stack string) bool
}

// Run runs every case of the suite against the engine of h, each as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	h.run(t, cases())
}

func (h Harness) run(t *testing.T, all []lawCase) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("drivertest: a Harness needs Open")
	}
	if h.MinTTL == 0 {
		h.MinTTL = time.Second
	}
	for _, c := range all {
		if c.delayed && h.DelayEnter == nil {
			continue
		}
		t.Run(c.title(), func(t *testing.T) {
			if h.Around == nil {
				t.Parallel()
			}
			h.runCase(t, c)
		})
	}
}

// runCase runs one case and then checks for leaked goroutines. It recognises them
// by a pprof label, which goroutines inherit, so that cases can run in parallel.
func (h Harness) runCase(t *testing.T, c lawCase) {
	label := newID()
	t.Cleanup(func() {
		if !t.Failed() {
			checkGoroutines(t, label, h.Stays)
		}
		if !t.Failed() {
			return
		}
		if c.law > 0 {
			t.Logf("law %d: %s", c.law, laws[c.law])
		}
		t.Logf("this case: %s", c.why)
	})
	around := h.Around
	if around == nil {
		around = func(t *testing.T, run func(*testing.T)) { run(t) }
	}
	pprof.Do(t.Context(), pprof.Labels(labelKey, label), func(context.Context) {
		around(t, func(t *testing.T) {
			f := newFixture(t, h, c, label)
			if f.supports(c.needs) {
				f.holdTaken()
				c.run(f)
			}
		})
	})
}
