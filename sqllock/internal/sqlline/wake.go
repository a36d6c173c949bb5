package sqlline

import (
	"context"
	"time"
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
