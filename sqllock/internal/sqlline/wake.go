package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// startListening starts Listen if it does not run, and tells it that there is a waiter
// or watcher.
func (e *Engine) startListening() {
	e.mu.Lock()
	defer e.mu.Unlock()
	closeLocked(&e.activity)
	if e.listening || e.d.Listen == nil {
		return
	}
	e.listening = e.sessions.Go(func(ctx context.Context) { e.d.Listen(ctx, Waiters{e}) }) == nil
}

// granted is called when a claim that waited is seen to hold.
func (e *Engine) granted(id string) {
	if w := e.waiters.Find(id); w != nil && !w.Woken() {
		e.mu.Lock()
		defer e.mu.Unlock()
		closeLocked(&e.missed)
	}
}

// pollSoon makes a poll of a name due: its line has changed, or there is a new waiter or
// watcher.
func (e *Engine) pollSoon(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.polls[name]; p != nil {
		p.hurry()
		closeLocked(&e.activity)
	}
}

// A place is that of a claim that waits in this process, as polls know it.
type place struct {
	token int64 // its order in the line
	ttl   time.Duration
}

// addPlace adds the place of a waiter of a name, and makes the poll of it due. It is
// removed by what is returned.
func (e *Engine) addPlace(name string, w *driverkit.Waiter, at place) (remove func()) {
	e.mu.Lock()
	if e.places[name] == nil {
		e.places[name] = map[*driverkit.Waiter]place{}
	}
	e.places[name][w] = at
	e.mu.Unlock()
	e.pollSoon(name)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.places[name], w); len(e.places[name]) == 0 {
			delete(e.places, name)
		}
	}
}

// receive returns a channel that the next closeLocked of it closes.
func (e *Engine) receive(c *chan struct{}) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

func closeLocked(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}
