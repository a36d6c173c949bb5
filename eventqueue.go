package pawl

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

const (
	maxQueued   = 4096                   // events kept for an observer that is stuck
	maxObserved = 100 * time.Millisecond // how long a call waits for its events to be observed
)

// An eventQueue brings events to one observer. Its goroutine lives while there are
// events, so that nothing need end it.
type eventQueue struct {
	to     Observer
	direct bool
	wants  func(Event) bool // nil: everything
	panics sync.Once        // only the first is logged

	mu       sync.Mutex // guards the following
	events   []queuedEvent
	running  bool   // a goroutine delivers
	posted   uint64 // events so far
	observed uint64 // of these
	stuck    bool   // a call has waited in vain, and no event was observed since
	waits    []observedWait
}

// A queuedEvent is an event and where it is counted if it cannot be observed.
type queuedEvent struct {
	e Event
	n *counters
}

// An observedWait is for calls that wait until so many events were observed.
type observedWait struct {
	posted uint64
	over   chan struct{} // closed by deliverOne
}

func newEventQueue(to Observer) *eventQueue {
	q := &eventQueue{to: to}
	_, q.direct = to.(DirectObserver)
	if f, ok := to.(interface{ wants(Event) bool }); ok {
		q.wants = f.wants
	}
	return q
}

// post tells the observer, or has its goroutine do so.
func (q *eventQueue) post(n *counters, e *Event) {
	if q.direct {
		q.observe(n, e)
		return
	}
	if q.wants != nil && !q.wants(*e) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) >= maxQueued {
		n.unobserved.Add(1)
		return
	}
	q.events = append(q.events, queuedEvent{*e, n})
	q.events[len(q.events)-1].e.Time = time.Now()
	q.posted++
	if !q.running {
		q.running = true
		go q.deliver() // ends when the queue is empty
	}
}

// deliver observes events until there are none. Where the observer ends the goroutine,
// by runtime.Goexit, another one goes on.
func (q *eventQueue) deliver() {
	empty := false
	defer func() {
		if !empty {
			go q.deliver() // ends when the queue is empty
		}
	}()
	for {
		next, ok := q.take()
		if !ok {
			empty = true
			return
		}
		q.deliverOne(next)
	}
}

// take returns the next event; without one, the goroutine that delivers has to end.
func (q *eventQueue) take() (next queuedEvent, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		q.events, q.waits, q.running = nil, nil, false
		return next, false
	}
	next = q.events[0]
	q.events[0] = queuedEvent{}
	q.events = q.events[1:]
	return next, true
}

// deliverOne observes an event, and tells the calls that waited for it.
func (q *eventQueue) deliverOne(next queuedEvent) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.observed++
		q.stuck = false
		for len(q.waits) > 0 && q.waits[0].posted <= q.observed {
			close(q.waits[0].over)
			q.waits = q.waits[1:]
		}
	}()
	q.observe(next.n, &next.e)
}

// settle waits until all that was posted so far was observed, for at most limit, and
// not at all while the observer is stuck. It returns how long it waited.
func (q *eventQueue) settle(limit time.Duration) (took time.Duration) {
	if q.direct {
		return 0
	}
	q.mu.Lock()
	if q.posted == q.observed || q.stuck {
		q.mu.Unlock()
		return 0
	}
	w := q.waitLocked()
	q.mu.Unlock()
	begun := time.Now()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-w.over:
	case <-late.C:
		q.mu.Lock()
		q.stuck = q.stuck || q.observed < w.posted
		q.mu.Unlock()
	}
	return time.Since(begun)
}

// waitLocked returns the wait for all that was posted so far. Calls that wait for the same
// share it, so that there are no more waits than events.
func (q *eventQueue) waitLocked() observedWait {
	if n := len(q.waits); n > 0 && q.waits[n-1].posted == q.posted {
		return q.waits[n-1]
	}
	w := observedWait{q.posted, make(chan struct{})}
	q.waits = append(q.waits, w) // in the order of posted
	return w
}

// observe calls the observer, and recovers from its panic; runtime.Goexit cannot be
// recovered from.
func (q *eventQueue) observe(n *counters, e *Event) {
	ok := false
	defer func() {
		if ok {
			return
		}
		cause := recover()
		n.unobserved.Add(1)
		q.panics.Do(func() {
			defer func() { _ = recover() }() // the logger may be what panicked
			slog.Error("pawl: an observer of locks panicked; later panics are only counted", "panic", cause, "stack", string(debug.Stack()))
		})
	}()
	q.to.Observe(*e)
	ok = true
}

// observers are those of one lock.
type observers []*eventQueue

// post tells the observers of an event without waiting for them.
func (all observers) post(n *counters, e *Event) {
	for _, q := range all {
		q.post(n, e)
	}
}

// settle waits until the events posted so far were observed, for at most maxObserved in
// all, and not for an observer that is stuck.
func (all observers) settle() {
	left := maxObserved
	for _, q := range all {
		left -= q.settle(left)
	}
}
