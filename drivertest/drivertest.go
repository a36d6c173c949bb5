// Package drivertest is what every engine must do: the laws of package driver
// as cases that run against a real store.
//
// It cannot show that an engine never breaks a law, only that it keeps it in the
// orders of events written down here. What a store does when it is killed, cut
// off or restored from an old copy is not part of it: that needs servers and a
// faulty network, and is tested beside the engine.
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
// When a case fails, the law it is about is printed with it. Nothing is skipped
// for a feature that an engine declares absent: the case then checks that the
// engine refuses it with driver.ErrUnsupported.
package drivertest

import (
	"context"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Harness says how the suite reaches an engine. Only Open must be given.
type Harness struct {
	// Open returns an engine for one case, on a store that other cases may use
	// at the same time: the suite's names are unique. The suite closes it.
	Open func(t *testing.T) driver.Engine

	// Peer returns a second engine on e's store, as another process would have.
	// If it is given, every other session of a case is opened there.
	Peer func(t *testing.T, e driver.Engine) driver.Engine

	// Crash lets the client behind a session die without a word. The suite does
	// not use the session afterwards, not even to close it; nil: that is enough.
	Crash func(driver.Session)

	// Around runs one case; for synctest.Test. If it is nil, cases run in parallel.
	Around func(*testing.T, func(*testing.T))

	// MinTTL is the shortest TTL that the engine keeps well on a busy machine;
	// cases in which something expires take a few of it. 0: one second.
	MinTTL time.Duration

	// MaxTTL is the longest TTL that the engine keeps, where there is one.
	MaxTTL time.Duration

	// Seed of the random histories and of the lost replies, to repeat a failure;
	// 0: another each time. A case that uses it prints it.
	Seed uint64

	// Late holds back the request of the next Enter on s: that call fails, as if its
	// connection had broken. arrive has the request reach the store, and returns when
	// it was carried out there. Without Late the cases about late requests do not run.
	DelayEnter func(t *testing.T, s driver.Session) (arrive func() error)

	// Clean reports what a case has left behind in e's store that must not stay.
	Clean func(t *testing.T, e driver.Engine) error

	// Stays reports whether a goroutine with this stack belongs to a client that
	// the cases share, so that it may outlive the one that started it.
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

// play runs one case and then looks for goroutines that outlived it. They are
// known by a label that every goroutine inherits from the one that starts it,
// so that cases can run beside each other.
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
