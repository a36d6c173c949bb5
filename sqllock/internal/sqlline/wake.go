package sqlline

import "time"

// activeLocked starts Listen if it does not run, and tells it that there is a waiter or
// watcher.
func (e *Engine) activeLocked() {
	closeLocked(&e.activity)
	if e.listening || e.d.Listen == nil || e.closed {
		return
	}
	e.listening = true
	e.tasks.Go(func() { e.d.Listen(e.running, Waiters{e}) }) // Close ends it and waits for it
}

// wake makes the waiters of these claims look, and returns the claims that have no
// waiter in this process.
func (e *Engine) wake(ids ...string) (elsewhere []string) {
	if len(ids) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if w := e.waiters[id]; w != nil {
			w.notified = true
			w.wake()
		} else {
			elsewhere = append(elsewhere, id)
		}
	}
	return elsewhere
}

// granted is called when a claim that waited is seen to hold.
func (e *Engine) granted(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiters[id]; w != nil && !w.notified {
		closeLocked(&e.missed)
	}
}

// pollSoon makes a poll of a name due, because this process has changed its line.
func (e *Engine) pollSoon(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.polls[e.name(key)]; p != nil {
		p.pause, p.due = 0, time.Time{}
		e.activeLocked()
	}
}
