package kvline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// clockAge is how old the last answer about the store's clock may be. No claim is ended
// by it: it says when to ask again.
const clockAge = 5 * time.Second

// load returns a line and its revision, and a time that the store's clock has reached.
func (e *Engine) load(ctx context.Context, name string, trust bool) (l line, revision uint64, now time.Time, err error) {
	if trust {
		now, err = e.store.Now(ctx, time.Hour)
		l, revision = e.known.get(name)
		return l, revision, now, err
	}
	var asked sync.WaitGroup
	asked.Go(func() { _, _ = e.store.Now(ctx, clockAge) }) // at the same time as the line: it would be the next
	l, revision, err = e.fetch(ctx, name)
	if asked.Wait(); err == nil {
		now, err = e.clock(ctx, l)
	}
	return l, revision, now, err
}

// fetch reads a line, and remembers it.
func (e *Engine) fetch(ctx context.Context, name string) (line, uint64, error) {
	v, err := e.store.Get(ctx, linePrefix+encode(name))
	if err != nil {
		return nil, 0, err
	}
	l, err := read(v)
	if err != nil {
		return nil, 0, e.keyError(name, err)
	}
	if len(l) > 0 {
		e.known.set(name, slices.Clone(l), v.Revision)
	}
	return l, v.Revision, nil
}

// clock returns a time that the store's clock has reached after the line was read. Before
// a claim is ended the clock is asked: by now another server may answer.
func (e *Engine) clock(ctx context.Context, l line) (time.Time, error) {
	now, err := e.store.Now(ctx, clockAge)
	if err == nil && l.unclear(now) {
		now, err = e.store.Now(ctx, 0)
	}
	return now, err
}

func (e *Engine) keyError(name string, err error) error {
	return fmt.Errorf("%s: %q: %w", e.label, name, err)
}
