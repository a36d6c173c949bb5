package quorum

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wait records a claim as waiting and returns the counts before its last Enter; nil:
// that Enter was not watched.
func (w *watch) wait(c driver.Claim) []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[c.ID]
	w.seen[c.ID] = seen
	return seen
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
	if _, waits := w.seen[c.ID]; waits {
		w.seen[c.ID] = slices.Clone(w.counts)
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
	seen := w.seen[b.claim.ID]
	if seen == nil {
		return
	}
	for _, v := range b.all {
		if v.granted() {
			seen[v.node] = w.counts[v.node] + 1
		}
	}
}

// held forgets a claim that waits no more because it is held.
func (ws *watches) held(c driver.Claim) {
	if w := ws.find(c.Name); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.seen, c.ID)
		w.failures = 0
	}
}

// forget forgets a claim that waits no more.
func (ws *watches) forget(c driver.Claim) {
	if w := ws.find(c.Name); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.seen, c.ID)
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
	return time.Millisecond/2 + rand.N(min(max(took, time.Millisecond)<<failures, maxPause))
}
