package quorum

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/jitter"
)

// Await waits for the claim's turn at a node, and then for the votes of a majority. Without
// a turn, or the votes, it says only that the core may enter again.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	began := time.Now()
	cs := s.stateOf(c)
	if cs == nil {
		return driver.Standing{Gone: true}, nil
	}
	t := &turn{s: s, cs: cs, claim: cs.atNode()}
	t.claim.Queue = true
	token, until := t.take(ctx)
	if token == 0 {
		s.leaveNodes(cs, func(int) func(error) { return func(error) {} })
	}
	switch s.mu.Lock(); {
	case s.closed:
		defer s.mu.Unlock()
		return driver.Standing{}, driver.ErrGone
	case token != 0:
		defer s.mu.Unlock()
		cs.token = token
		return driver.Standing{Held: true, Token: token, Valid: until.Sub(began)}, nil
	}
	s.mu.Unlock()
	if took := time.Since(began); took < minWait {
		driverkit.Pause(ctx, minWait/2+jitter.N(minWait/2))
	}
	return driver.Standing{Ahead: -1}, ctx.Err()
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
