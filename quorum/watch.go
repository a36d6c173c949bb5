package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// linger is how long a watch is kept after the last wait: a waiter asks again
// between two waits, and what happens meanwhile must not be missed.
const linger = 2 * time.Second

// maxPause is how long a waiter sleeps at most without having been told anything.
const maxPause = time.Second

// A watch counts the departures from one name's lines, node by node, for all
// who wait for the name in this process. One node that tells of a departure
// says little, since a rival that stumbled leaves a few; when a majority does,
// the name may be free.
type watch struct {
	e      *Engine
	name   string
	ctx    context.Context
	finish context.CancelFunc
	ready  chan struct{} // closed when a majority is watched, or will not be soon

	mu       sync.Mutex // guards what follows
	open     int
	counts   []uint64
	seen     map[string][]uint64 // claims that wait: the counts when their last Enter was sent, nil if it was not seen
	changed  chan struct{}       // closed and made anew when a count rises
	waiting  int
	stumbles int // of this process, in a row
	idle     *time.Timer
}

// attend returns the watch of a name, started if need be, and keeps it until
// release.
func (e *Engine) attend(name string) (*watch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, driver.ErrGone
	}
	w := e.watches[name]
	if w == nil {
		w = &watch{e: e, name: name, counts: make([]uint64, len(e.nodes)), seen: map[string][]uint64{},
			changed: make(chan struct{}), ready: make(chan struct{})}
		w.ctx, w.finish = context.WithCancel(e.ctx)
		w.idle = time.AfterFunc(linger, w.end)
		e.watches[name] = w
		for i, n := range e.nodes {
			if source, ok := n.Engine.(driver.Watcher); ok {
				e.tasks.Go(func() { w.follow(i, source) })
			}
		}
	}
	w.mu.Lock()
	w.waiting++
	w.idle.Stop()
	w.mu.Unlock()
	return w, nil
}

func (w *watch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting--; w.waiting == 0 {
		w.idle.Reset(linger)
	}
}

// end stops a watch that nobody has used for a while.
func (w *watch) end() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 || w.e.watches[w.name] != w {
		return
	}
	delete(w.e.watches, w.name)
	w.finish()
}

// follow counts one node's departures until the watch ends.
func (w *watch) follow(i int, source driver.Watcher) {
	for w.ctx.Err() == nil {
		told, err := source.Watch(w.ctx, w.name)
		if err == nil {
			w.opened(i)
			for range told {
				w.count(i)
			}
			w.count(i) // what happened while it was cut off is not known
		}
		select {
		case <-time.After(maxPause):
		case <-w.ctx.Done():
		}
	}
}

// opened counts a node that is watched from now on. Who waits may have asked while
// a majority was watched already and this node was not.
func (w *watch) opened(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open++; w.open == w.e.majority {
		close(w.ready)
	} else if w.open > w.e.majority {
		w.countLocked(i)
	}
}

func (w *watch) count(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.countLocked(i)
}

func (w *watch) countLocked(i int) {
	w.counts[i]++
	close(w.changed)
	w.changed = make(chan struct{})
}

// risen tells whether a majority has counted something that is not in seen, and
// otherwise what to wait for.
func (w *watch) risen(seen []uint64) (risen bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for i, count := range w.counts {
		if count > seen[i] {
			n++
		}
	}
	return n >= w.e.majority, w.changed
}

// snapshot returns what has been counted.
func (w *watch) snapshot() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.counts)
}

// watchOf returns the watch of a name, nil if nobody waits for it here.
func (e *Engine) watchOf(name string) *watch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.watches[name]
}

// entering remembers what was counted before a claim asks.
func (e *Engine) entering(c driver.Claim) {
	w := e.watchOf(c.Name)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waits := w.seen[c.ID]; waits { // one who only tries is of no interest
		w.seen[c.ID] = slices.Clone(w.counts)
	}
}

// undoing discounts what a claim that stumbled is about to be told of itself: a
// node that granted it was free, and the next to depart there is the claim. Two
// rivals that wake each other and themselves with what they undo would meet again
// at once, for ever.
func (e *Engine) undoing(c driver.Claim, t *tally) {
	w := e.watchOf(c.Name)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[c.ID]
	if seen == nil {
		return
	}
	for _, v := range t.votes {
		if v.granted() {
			seen[v.node] = w.counts[v.node] + 1
		}
	}
}

// entered forgets a claim that is held: it waits no more.
func (e *Engine) entered(c driver.Claim) { e.unwait(c, true) }

// unwait forgets a claim that does not wait any more.
func (e *Engine) unwait(c driver.Claim, held bool) {
	w := e.watchOf(c.Name)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, c.ID)
	if held {
		w.stumbles = 0
	}
}

// stumble returns how long to wait before the next attempt of a claim whose
// rivals may stumble as it did: at random, and longer each time. An attempt that
// took long is met by more rivals, so the wait is measured by it.
func (e *Engine) stumble(name string, took time.Duration) time.Duration {
	w := e.watchOf(name)
	times := 1
	if w != nil {
		w.mu.Lock()
		w.stumbles++
		times = min(w.stumbles, 6)
		w.mu.Unlock()
	}
	return time.Millisecond/2 + rand.N(min(max(took, time.Millisecond)<<times, maxPause))
}

// Await waits until a majority of the nodes has told of a departure since the
// claim asked, or for a little while. It promises nothing: the core asks again.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return driver.Standing{}, driver.ErrGone
	}
	w, err := s.e.attend(c.Name)
	if err != nil {
		return driver.Standing{}, err
	}
	defer w.release()
	pause := last.Pause
	if pause <= 0 || pause > maxPause {
		pause = maxPause
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	w.mu.Lock()
	seen := w.seen[c.ID]
	w.seen[c.ID] = seen
	w.mu.Unlock()
	for {
		risen, changed := false, (<-chan struct{})(w.ready)
		if seen != nil {
			risen, changed = w.risen(seen)
		}
		if risen {
			return driver.Standing{Ahead: -1}, nil
		}
		select {
		case <-changed:
			if seen == nil { // a departure since it asked was not counted: ask again, watched
				return driver.Standing{Ahead: -1}, nil
			}
		case <-timer.C:
			return driver.Standing{Ahead: -1}, nil
		case <-ctx.Done():
			s.e.unwait(c, false)
			return driver.Standing{}, ctx.Err()
		case <-s.ctx.Done():
			return driver.Standing{}, driver.ErrGone
		case <-w.ctx.Done():
			return driver.Standing{}, driver.ErrGone
		}
	}
}

// Watch tells of departures from the name's lines, once for each time that a
// majority of the nodes has told of one.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := e.attend(name)
	if err != nil {
		return nil, errClosed
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		w.release()
		return nil, ctx.Err()
	case <-time.After(maxPause): // the nodes that are watched will have to do
	}
	told, seen := make(chan struct{}, 1), w.snapshot()
	if !e.start(func() { w.relay(ctx, seen, told) }) {
		w.release()
		return nil, errClosed
	}
	return told, nil
}

func (w *watch) relay(ctx context.Context, seen []uint64, told chan<- struct{}) {
	defer close(told)
	defer w.release()
	for {
		risen, changed := w.risen(seen)
		if risen {
			seen = w.snapshot()
			select {
			case told <- struct{}{}:
			default: // told already
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-w.ctx.Done():
			return
		}
	}
}
