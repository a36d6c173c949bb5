package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// idleTimeout is how long a watch is kept without users: a waiter enters again between
// two calls of Await, and departures in between must not be missed.
const idleTimeout = 2 * time.Second

// maxPause is the time after which a watch that a node ended is opened again.
const maxPause = time.Second

// watches is the watches of an engine, one for each name that this process waits for.
type watches struct {
	set *nodes.Set
	run func(func(context.Context)) error // runs a function on a goroutine of the engine

	mu  sync.Mutex // guards all; locked before a watch's mu
	all map[string]*watch
}

func newWatches(set *nodes.Set, run func(func(context.Context)) error) *watches {
	return &watches{set: set, run: run, all: map[string]*watch{}}
}

// A watch counts the departures from one name's line at each node. A departure at one
// node means little, because a rival that did not win leaves the nodes it got; when
// a majority has reported one, the name may be free.
type watch struct {
	ctx      context.Context
	cancel   context.CancelFunc
	majority int
	ready    chan struct{} // closed when a majority is watched

	mu      sync.Mutex    // guards what follows
	watched []bool        // by node
	isReady bool          // ready is closed
	counts  []uint64      // departures, by node
	changed chan struct{} // closed and replaced when a count rises
	users   int
	idle    *time.Timer
}

// open returns the watch of a name, and starts it if there is none. The caller must
// release it.
func (ws *watches) open(name string) (*watch, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[name]
	if w == nil {
		if w = ws.start(name); w.ctx.Err() != nil {
			return nil, driver.ErrGone
		}
		w.idle = time.AfterFunc(idleTimeout, func() { ws.expire(name, w) })
		ws.all[name] = w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	w.idle.Stop()
	return w, nil
}

// start returns a new watch, whose context has ended if the engine is closed.
func (ws *watches) start(name string) *watch {
	n := len(ws.set.Nodes)
	w := &watch{majority: ws.set.Majority, watched: make([]bool, n), counts: make([]uint64, n),
		changed: make(chan struct{}), ready: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for i, n := range ws.set.Nodes {
		source, ok := n.Engine.(driver.Watcher)
		if !ok {
			continue
		}
		if err := ws.run(func(engine context.Context) {
			defer context.AfterFunc(engine, w.cancel)()
			w.follow(i, name, source)
		}); err != nil {
			w.cancel()
		}
	}
	return w
}

// expire ends a watch that has had no users for idleTimeout.
func (ws *watches) expire(name string, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 && ws.all[name] == w {
		delete(ws.all, name)
		w.cancel()
	}
}

func (w *watch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.idle.Reset(idleTimeout)
	}
}

// follow counts one node's departures until the watch ends.
func (w *watch) follow(i int, name string, source driver.Watcher) {
	for w.ctx.Err() == nil {
		departures, err := source.Watch(w.ctx, name)
		if err == nil {
			w.setWatched(i, true)
			for range departures {
				w.departed(i)
			}
			w.setWatched(i, false)
		}
		driverkit.Pause(w.ctx, maxPause)
	}
}

// setWatched records that a node is watched from now on, or is not any more. Departures
// in the time without a watch are unknown, so that both count as one.
func (w *watch) setWatched(i int, watched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched[i] = watched
	w.departedLocked(i)
	n := 0
	for _, watched := range w.watched {
		if watched {
			n++
		}
	}
	if n >= w.majority && !w.isReady {
		w.isReady = true
		close(w.ready)
	}
}

func (w *watch) departed(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.departedLocked(i)
}

func (w *watch) departedLocked(i int) {
	w.counts[i]++
	close(w.changed)
	w.changed = make(chan struct{})
}

// risen reports whether a majority of the counts is above seen, and if not, returns
// the channel that is closed at the next change.
func (w *watch) risen(seen []uint64) (risen bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for i, count := range w.counts {
		if count > seen[i] {
			n++
		}
	}
	return n >= w.majority, w.changed
}

// snapshot returns the counts.
func (w *watch) snapshot() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.counts)
}
