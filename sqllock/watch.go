package sqllock

import (
	"context"
	"slices"
)

// A watcher is told of departures from one name's line.
type watcher struct {
	told chan struct{} // buffered by one; closed when the watcher's ctx ends, under the engine's mu
	seen int64         // the name's count of departures when it was last read; guarded by the engine's mu
}

// Watch tells of departures from name's line, within the time in which the
// dialect learns of them.
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
	e.pollsLocked(name).watchers++
	if e.watching != nil {
		close(e.watching)
		e.watching = nil
	}
	e.stirLocked()
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
		e.unpollLocked(name, p)
		close(w.told)
	})
	return w.told, nil
}

// departures reads how often somebody has left; a name without a row has none.
func (e *Engine) departures(ctx context.Context, name string) (n int64, err error) {
	a := &Args{}
	a.text[Name] = e.key(name)
	err = e.d.Store.Read(ctx, &Step{Query: e.q.departed, Args: a, Row: func(r Row) error { return r.Scan(&n) }})
	return n, err
}

func (e *Engine) lookAfter(ctx context.Context, name string) error {
	n, err := e.departures(ctx, name)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.departedLocked(name, n)
	return nil
}

// departedLocked tells those who watch a name that its count is n now.
func (e *Engine) departedLocked(name string, n int64) {
	for _, w := range e.watchers[name] {
		if w.seen == n {
			continue
		}
		w.seen = n
		select {
		case w.told <- struct{}{}:
		default: // told already
		}
	}
}
