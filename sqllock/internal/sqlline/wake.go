package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
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
		p.pause, p.due = 0, time.Time{}
		closeLocked(&e.activity)
	}
}

// addPlace notes a claim that begins to wait, and makes the poll of its name due. The
// claim is removed by what is returned.
func (e *Engine) addPlace(c driver.Claim, token int64) (remove func()) {
	e.mu.Lock()
	if e.places[c.Name] == nil {
		e.places[c.Name] = map[string]int64{}
	}
	e.places[c.Name][c.ID] = token
	e.mu.Unlock()
	e.pollSoon(c.Name)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.places[c.Name][c.ID] != token {
			return // a later try waits
		}
		if delete(e.places[c.Name], c.ID); len(e.places[c.Name]) == 0 {
			delete(e.places, c.Name)
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
