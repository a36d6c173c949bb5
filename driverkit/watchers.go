package driverkit

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Watchers are the watches of an engine's callers on departures, for [driver.Watcher].
// The zero Watchers are ready for use.
type Watchers struct {
	// First is called when a name that no one watched is watched, and Last when no one
	// watches it any more, in this order and under the mutex of Watchers: they must not
	// block nor call back. Both may be nil.
	First, Last func(name string)

	mu     sync.Mutex // guards what follows
	byName map[string][]*watcher
}

type watcher struct {
	departures chan struct{} // buffered by one; closed when the watcher's ctx ends
	seen       uint64        // the name's number of departures at the last notification
}

// Watch returns a channel that receives after departures from name's line until ctx ends,
// and is closed then. seen is the number of departures so far where the store counts
// them, see Departed, and otherwise 0.
func (w *Watchers) Watch(ctx context.Context, name string, seen uint64) <-chan struct{} {
	o := &watcher{departures: make(chan struct{}, 1), seen: seen}
	w.mu.Lock()
	if w.byName == nil {
		w.byName = map[string][]*watcher{}
	}
	w.byName[name] = append(w.byName[name], o)
	if len(w.byName[name]) == 1 && w.First != nil {
		w.First(name)
	}
	w.mu.Unlock()
	context.AfterFunc(ctx, func() { w.remove(name, o) })
	return o.departures
}

func (w *Watchers) remove(name string, o *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(o.departures)
	w.byName[name] = slices.DeleteFunc(w.byName[name], func(other *watcher) bool { return other == o })
	if len(w.byName[name]) > 0 {
		return
	}
	delete(w.byName, name)
	if w.Last != nil {
		w.Last(name)
	}
}

// Notify notifies the watchers of name that a claim has left its line. It never blocks:
// several departures may be one notification.
func (w *Watchers) Notify(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.byName[name] {
		Signal(o.departures)
	}
}

// Departed notifies the watchers of name that know another number of departures than n.
// It is for stores that are polled.
func (w *Watchers) Departed(name string, n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.byName[name] {
		if o.seen != n {
			o.seen = n
			Signal(o.departures)
		}
	}
}

// Names returns the names that are watched.
func (w *Watchers) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.byName))
}
