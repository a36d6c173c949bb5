package sqlline

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A watcher is told of departures from one name's line.
type watcher struct {
	told chan struct{} // buffered by one; closed when the watcher's ctx ends, under the engine's mu
	seen int64         // the number of departures it was last told of; guarded by the engine's mu
}

// Watch tells of departures from name's line as soon as the dialect learns of them.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	seen, err := e.departures(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &watcher{told: make(chan struct{}, 1), seen: seen}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, e.errClosed()
	}
	e.watchers[name] = append(e.watchers[name], w)
	e.pollLocked(name).watchers++
	closeLocked(&e.watching)
	e.activeLocked()
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		rest := slices.DeleteFunc(e.watchers[name], func(o *watcher) bool { return o == w })
		if len(rest) == 0 {
			delete(e.watchers, name)
		} else {
			e.watchers[name] = rest
		}
		p := e.polls[name]
		p.watchers--
		e.endPollLocked(name, p)
		close(w.told)
	})
	return w.told, nil
}

// departures reads the number of departures; it is 0 for a name without a head row.
func (e *Engine) departures(ctx context.Context, name string) (n int64, err error) {
	err = e.d.Store.Read(ctx, &sqlstore.Step{Statement: e.q.Departures, Args: e.named(name), Row: func(r sqlstore.Row) error { return r.Scan(&n) }})
	return n, err
}

func (e *Engine) readDepartures(ctx context.Context, name string) error {
	n, err := e.departures(ctx, name)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.departedLocked(name, n)
	return nil
}

// departedLocked tells the watchers of a name that its number of departures is n.
func (e *Engine) departedLocked(name string, n int64) {
	for _, w := range e.watchers[name] {
		if w.seen != n {
			w.seen = n
			signal(w.told)
		}
	}
}
