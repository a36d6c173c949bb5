package verify

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// When an attempt is in line is told by events, also inside the process; and that it came
// into the store's line again, because it had lost its place, only by the calls themselves.

// A waitObserver records when an attempt waits.
type waitObserver struct{ w *worker }

func (waitObserver) Direct() {}

func (q waitObserver) Observe(e pawl.Event) {
	if e.Kind != pawl.Waiting {
		return
	}
	q.w.queued(e.Context)
}

// queued records that the attempt of a context is in line now.
func (w *worker) queued(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		w.out(record{ID: a.id, Queued: now()})
	}
}

// entered records that a claim is in line now, for the attempt of a context. A claim of the
// same attempt that was in line before has lost its place.
func (w *worker) entered(ctx context.Context, claim string) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	r := record{ID: a.id, Queued: now()}
	if before := a.claim.Swap(&claim); before != nil && *before == claim {
		r.Forgotten = r.Queued
	}
	w.out(r)
}

// A recordedEngine is an engine whose sessions record when a claim is in line.
type recordedEngine struct {
	driver.Engine
	w *worker
}

func (e recordedEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &recordedSession{s, e.w}, nil
}

type recordedSession struct {
	driver.Session
	w *worker
}

func (s *recordedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.Session.Enter(ctx, c)
	if err == nil && !st.Held && !st.Gone && c.Queue {
		s.w.entered(ctx, c.ID)
	}
	return st, err
}
