package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// Waits are the acquires that wait now. The zero value is empty.
//
// An event does not say which Waiting it ends: a lock that is handed over inside the process
// has the ID of the hold and not of the wait. So Waits keeps only the times at which acquires
// began, and an end removes the time that is nearest to its own begin. The number is exact. The
// oldest may be that of another acquire that began at nearly the same time: the difference is
// at most the delay with which events are delivered.
type Waits struct {
	mu    sync.Mutex // guards everything below
	begun []int64    // ascending from head on, in nanoseconds since start
	head  int        // locks are mostly granted in order, so the first time is removed most often
}

// start is what times count from, so that they are monotonic.
var start = time.Now()

// Observe takes in an event.
func (w *Waits) Observe(e pawl.Event) {
	switch {
	case e.Kind == pawl.Waiting:
		w.begin(began(e))
	case e.Kind == pawl.GaveUp, e.Waited && (e.Kind == pawl.Acquired || e.Kind == pawl.HandedOver):
		w.end(began(e))
	}
}

// began returns when the acquire of an event began.
func began(e pawl.Event) int64 {
	since := time.Since(start)
	if !e.Time.IsZero() {
		since = e.Time.Sub(start)
	}
	return int64(since - e.Took)
}

// Len returns how many acquires wait.
func (w *Waits) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.begun) - w.head
}

// Oldest returns how long the acquire that has waited longest has waited so far; 0 if none waits.
func (w *Waits) Oldest() time.Duration {
	now := time.Since(start)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head == len(w.begun) {
		return 0
	}
	return max(0, now-time.Duration(w.begun[w.head]))
}

func (w *Waits) begin(at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.begun) == cap(w.begun) && w.head > len(w.begun)/2 { // room for more without an allocation
		w.begun = w.begun[:copy(w.begun, w.begun[w.head:])]
		w.head = 0
	}
	i, _ := slices.BinarySearch(w.begun[w.head:], at)
	w.begun = slices.Insert(w.begun, w.head+i, at)
}

// end removes the time that is nearest to at.
func (w *Waits) end(at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := w.begun[w.head:]
	if len(live) == 0 { // its Waiting was not observed
		return
	}
	i, _ := slices.BinarySearch(live, at)
	if i == len(live) || i > 0 && at-live[i-1] < live[i]-at {
		i--
	}
	if i < len(live)/2 { // move the shorter part
		copy(live[1:i+1], live[:i])
		w.head++
	} else {
		w.begun = slices.Delete(w.begun, w.head+i, w.head+i+1)
	}
	if w.head == len(w.begun) {
		w.begun, w.head = w.begun[:0], 0
	}
}
