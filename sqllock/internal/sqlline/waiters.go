package sqlline

import (
	"context"
	"slices"
)

// Waiters are the waiters and watchers of this process, as a dialect's Listen sees them.
type Waiters struct{ e *Engine }

// WaitForAny returns once there is a waiter or watcher, or with ctx's error.
func (w Waiters) WaitForAny(ctx context.Context) error {
	for {
		activity := w.Activity()
		if w.Any() {
			return ctx.Err()
		}
		select {
		case <-activity:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Any reports whether there is a waiter or watcher.
func (w Waiters) Any() bool { return len(w.e.waiters.Names()) > 0 || w.AnyWatcher() }

// AnyWatcher reports whether there is a watcher, which no notice reaches.
func (w Waiters) AnyWatcher() bool { return len(w.e.watchers.Names()) > 0 }

// Wake makes the waiters of these claims look.
func (w Waiters) Wake(ids ...string) { w.e.waiters.Wake(ids...) }

// Activity returns a channel that is closed when a waiter or watcher is added, or when
// this process changes a line that is waited for.
func (w Waiters) Activity() <-chan struct{} { return w.e.receive(&w.e.activity) }

// Watching returns a channel that is closed when a watcher is added.
func (w Waiters) Watching() <-chan struct{} { return w.e.receive(&w.e.watching) }

// Missed returns a channel that is closed when a waiter finds its turn without having
// been notified of it: notices may not arrive any more.
func (w Waiters) Missed() <-chan struct{} { return w.e.receive(&w.e.missed) }

// WakeChanged wakes the waiters whose claim does not wait any more, with one read for
// all of them, and the watchers of names with departures, with one read for each name.
// It is for when the store has changed, or may have.
func (w Waiters) WakeChanged(ctx context.Context) error {
	e := w.e
	var ids []string
	for _, name := range e.waiters.Names() {
		ids = append(ids, e.waiters.IDs(name)...)
	}
	if len(ids) > 0 {
		waiting, err := e.readTexts(ctx, e.q.OwnerWaiting, owned(e.d.Owner))
		if err != nil {
			return err
		}
		e.wakeUnlisted(ids, waiting)
	}
	for _, name := range e.watchers.Names() {
		n, err := e.departures(ctx, name)
		if err != nil {
			return err
		}
		e.watchers.Departed(name, n)
	}
	return nil
}

// First reports whether a claim of this process is the first that waits in its line.
func (w Waiters) First(ctx context.Context) (bool, error) {
	ids, err := w.e.readTexts(ctx, w.e.q.OwnerFirst, owned(w.e.d.Owner))
	return len(ids) > 0, err
}

// wakeUnlisted wakes the waiters of claims that are not in waiting.
func (e *Engine) wakeUnlisted(ids, waiting []string) {
	slices.Sort(waiting)
	e.waiters.Wake(slices.DeleteFunc(ids, func(id string) bool {
		_, found := slices.BinarySearch(waiting, id)
		return found
	})...)
}

// Repair ends the claims of dead processes that are ahead of this one's, and advances
// lines that lost their holder. It is for every now and then, and costs two reads.
func (w Waiters) Repair(ctx context.Context) error {
	e := w.e
	a := owned(e.d.Owner)
	for again := e.d.Liveness != nil; again; { // behind one dead process may be the next
		owners, err := e.readTexts(ctx, e.q.OwnerBlockers, a)
		if err != nil {
			return err
		}
		again = false
		for _, owner := range owners {
			reaped, err := Reap(ctx, e, owner)
			if err != nil {
				return err
			}
			again = again || reaped
		}
	}
	keys, err := e.readTexts(ctx, e.q.StalledLines, a)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := e.advance(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
