package quorum

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
)

// forgetAfter is how long a claim is remembered that neither waits nor enters: its caller
// gave up between the two, which nothing reports.
const forgetAfter = 10 * time.Second

// A waiter is a claim that waits for a name.
type waiter struct {
	seen     []uint64 // the counts before its last Enter; nil: that Enter was not watched
	waiting  bool     // in Await
	lastCall time.Time
}

// startWaiting records a claim in Await and returns the counts before its last Enter.
func (w *watch) startWaiting(c driver.Claim) []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.swept) > forgetAfter {
		w.swept = now
		maps.DeleteFunc(w.waiters, func(_ string, x *waiter) bool {
			return !x.waiting && now.Sub(x.lastCall) > forgetAfter
		})
	}
	x := w.waiters[c.ID]
	if x == nil {
		x = &waiter{}
		w.waiters[c.ID] = x
	}
	x.waiting, x.lastCall = true, now
	return x.seen
}

// stopWaiting records that a claim is no longer in Await.
func (w *watch) stopWaiting(c driver.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.waiters[c.ID]; x != nil {
		x.waiting, x.lastCall = false, time.Now()
	}
}

// entering records the counts before a waiting claim enters. Claims that only try are
// not recorded.
func (ws *watches) entering(c driver.Claim) {
	w := ws.find(c.Name)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.waiters[c.ID]; x != nil {
		x.seen, x.lastCall = slices.Clone(w.counts), time.Now()
	}
}

// undoing makes a claim that did not win ignore its own departures: a node that
// granted it was free, and the next departure there is the claim's. Two rivals that
// woke each other and themselves by undoing their grants would collide again at once,
// forever.
func (ws *watches) undoing(b *ballot) {
	w := ws.find(b.claim.Name)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.waiters[b.claim.ID]
	if x == nil || x.seen == nil {
		return
	}
	for _, v := range b.all {
		if v.granted() {
			x.seen[v.node] = w.counts[v.node] + 1
		}
	}
}

// held forgets a claim that waits no more because it is held.
func (ws *watches) held(c driver.Claim) {
	if w := ws.find(c.Name); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiters, c.ID)
		w.failures = 0
	}
}

// forget forgets a claim that waits no more.
func (ws *watches) forget(c driver.Claim) {
	if w := ws.find(c.Name); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiters, c.ID)
	}
}

// backoff returns how long a claim waits before its next attempt when its rivals may
// have failed as well: a random time that grows with each failure. An attempt that
// took longer collides with more rivals, so the time is a multiple of what it took.
func (ws *watches) backoff(name string, took time.Duration) time.Duration {
	failures := 1
	if w := ws.find(name); w != nil {
		w.mu.Lock()
		w.failures++
		failures = min(w.failures, 6)
		w.mu.Unlock()
	}
	return time.Millisecond/2 + jitter.N(min(max(took, time.Millisecond)<<failures, maxPause))
}
