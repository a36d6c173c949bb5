package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Watch tells of departures from name's line. Where the servers could not be
// asked for a while, it tells once, since somebody may have left.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	seen, w, err := e.departures(ctx, e.linePath(name))
	if err != nil {
		return nil, err
	}
	if !e.begin() {
		return nil, errClosed
	}
	told := make(chan struct{}, 1) // closed by the goroutine below
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.begun, cancel)
	go func() { // ends with ctx or the engine, whose Close waits for it
		defer e.tasks.Done()
		defer close(told)
		defer cancel()
		defer stop()
		e.follow(ctx, e.linePath(name), seen, w, told)
	}()
	return told, nil
}

// A count is how often somebody has left a container.
type count struct {
	made int64
	left int64
}

// departures reads the count and sets a watch for when it changes. A container
// that is not there yet has none.
func (e *Engine) departures(ctx context.Context, path string) (count, *watch, error) {
	for {
		w, err := e.main.watch(ctx, nil, watchKey{path, onChildren})
		if err == nil {
			return countOf(w.stat), w, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return count{}, nil, err
		}
		w, err = e.main.watch(ctx, nil, watchKey{path, onBirth})
		if err != nil || !w.there {
			return count{}, w, err
		}
	}
}

// countOf is half of comers less the number that is there.
func countOf(stat *zk.Stat) count {
	return count{stat.Czxid, (int64(uint32(stat.Cversion)) - int64(stat.NumChildren)) / 2}
}

func (e *Engine) follow(ctx context.Context, path string, seen count, w *watch, told chan<- struct{}) {
	for {
		select {
		case <-w.fired:
		case <-ctx.Done():
			return
		}
		var now count
		for {
			var err error
			if now, w, err = e.departures(ctx, path); err == nil {
				break
			}
			select { // the servers cannot be asked
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		if now == seen || now.made != seen.made && now.left == 0 && seen.made == 0 {
			seen = now
			continue
		}
		seen = now
		select {
		case told <- struct{}{}:
		default: // told already
		}
	}
}
