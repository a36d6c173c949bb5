package quorum

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Await waits until a majority of the nodes has reported a departure since the claim
// entered, at most for last.Pause. It promises nothing: the core enters again.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return driver.Standing{}, driver.ErrGone
	}
	w, err := s.e.watches.open(c.Name)
	if err != nil {
		return driver.Standing{}, err
	}
	defer w.release()
	pause := last.Pause
	if pause <= 0 || pause > maxPause {
		pause = maxPause
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	seen := w.startWaiting(c)
	defer w.stopWaiting(c)
	for {
		risen, changed := false, (<-chan struct{})(w.ready)
		if seen != nil {
			risen, changed = w.risen(seen)
		}
		if risen {
			return driver.Standing{Ahead: -1}, nil
		}
		select {
		case <-changed:
			if seen == nil { // a departure since its Enter was not counted: enter again, watched
				return driver.Standing{Ahead: -1}, nil
			}
		case <-timer.C:
			return driver.Standing{Ahead: -1}, nil
		case <-ctx.Done():
			s.e.watches.forget(c)
			return driver.Standing{}, ctx.Err()
		case <-s.nodes.Done():
			return driver.Standing{}, driver.ErrGone
		case <-w.ctx.Done():
			return driver.Standing{}, driver.ErrGone
		}
	}
}

// Watch reports departures from the name's lines, one for each time that a majority of
// the nodes has reported one.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	w, err := e.watches.open(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		w.release()
		return nil, ctx.Err()
	case <-time.After(maxPause): // go on with the nodes that are watched
	}
	departures, seen := make(chan struct{}, 1), w.snapshot()
	if err := e.sessions.Go(func(engine context.Context) {
		defer context.AfterFunc(engine, w.cancel)()
		w.forward(ctx, seen, departures)
	}); err != nil {
		w.release()
		return nil, err
	}
	return departures, nil
}

// forward reports on departures each time that a majority of the counts has risen, and
// closes it when ctx or the watch ends.
func (w *watch) forward(ctx context.Context, seen []uint64, departures chan<- struct{}) {
	defer close(departures)
	defer w.release()
	for {
		risen, changed := w.risen(seen)
		if risen {
			seen = w.snapshot()
			driverkit.Signal(departures)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-w.ctx.Done():
			return
		}
	}
}

var _ driver.Watcher = (*Engine)(nil)
