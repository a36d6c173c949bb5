package driverkit

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// InProcess is the generation of notifications that cannot be lost, because they are
// delivered by a function call inside the process. See [Waiter.Current].
const InProcess = 1

// A Waiter is what wakes one waiting claim. It may exist from before the claim is
// entered until the claim has ended: a wake that comes while no Await is under way is
// kept for the next one. The zero Waiter is ready for use, and does not allocate until
// the claim has to wait.
type Waiter struct {
	mu      sync.Mutex    // guards what follows
	wake    chan struct{} // nil until the first Await, which looks at current; buffered by one, never closed
	current uint64        // the generation of the subscription in which no notification was missed; 0: none
	stale   bool          // Await has to look, whatever the generation
	woken   bool          // Wake was called
	recheck Recheck
}

// Current says that the claim is about to be entered while its subscription is up in
// generation. If that generation still lasts when Await is called, no notification was
// missed and Await need not look first. Without it, or with 0, Await looks first.
func (w *Waiter) Current(generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = generation
}

// Wake makes the claim's Await, or the next one, look at the line. It never blocks.
func (w *Waiter) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale, w.woken = true, true
	Signal(w.wake)
}

// Woken reports whether Wake was ever called. An engine whose Awaits have a Waiter each
// learns so that a turn was found without a notification: these may be lost.
func (w *Waiter) Woken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.woken
}

// Notify makes the claim's Await, or the next one, take the grant that the backend was
// given for it: see [Granter]. It never blocks.
func (w *Waiter) Notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	Signal(w.wake)
}

// Beaten applies what a beat has reported of the line, as [Recheck.Beaten] does.
func (w *Waiter) Beaten(sent time.Time, pause time.Duration, blocker string, every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recheck.Beaten(sent, pause, blocker, every) {
		Signal(w.wake)
	}
}

// Postpone is Beaten without news of the blocker.
func (w *Waiter) Postpone(sent time.Time, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recheck.Beaten(sent, pause, w.recheck.blocker, 0) {
		Signal(w.wake)
	}
}

// Suspect makes a look due, as [Recheck.Suspect] does.
func (w *Waiter) Suspect(every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recheck.Suspect(every) {
		Signal(w.wake)
	}
}

// LookWithin makes a look due after d, unless it is due sooner.
func (w *Waiter) LookWithin(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next := time.Now().Add(d); w.recheck == (Recheck{}) || next.Before(w.recheck.next) {
		w.recheck.next = next
		Signal(w.wake)
	}
}

// begin returns the channel that wakes an Await which knows last. A look that is due
// sooner stays so: with each call that is interrupted and repeated it would be postponed
// again.
func (w *Waiter) begin(last driver.Standing) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	if next := RecheckAfter(last); w.recheck == (Recheck{}) || next.next.Before(w.recheck.next) {
		w.recheck = next
	}
	return w.wake
}

// looking says that the claim is about to be looked at, in a generation of the
// subscription. A Wake that comes during the look makes another one due.
func (w *Waiter) looking(generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.stale = generation, false
}

// looked says that the claim was read as st and goes on waiting.
func (w *Waiter) looked(st driver.Standing) {
	if st.Pause <= 0 {
		st.Pause = unknownPause
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recheck = RecheckAfter(st)
}

// unknown says that it is not known how the claim stands: the next Await has to look.
func (w *Waiter) unknown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
}

// due reports whether the claim has to be looked at in a generation of its subscription,
// 0 if that is down, and otherwise for how long not.
func (w *Waiter) due(generation uint64) (due bool, left time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left = w.recheck.Left()
	return w.stale || generation != 0 && w.current != generation || left <= 0, left
}
