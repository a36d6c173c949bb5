package sqllock

import (
	"context"
	"slices"
)

// Waiters are those of this process who wait for a turn or watch a name, as a
// dialect's Attend sees them.
type Waiters struct{ e *Engine }

// Wanted returns once somebody waits or watches, or with ctx's error.
func (w Waiters) Wanted(ctx context.Context) error {
	e := w.e
	for {
		e.mu.Lock()
		if len(e.waiters)+len(e.watchers) > 0 {
			e.mu.Unlock()
			return ctx.Err()
		}
		if e.stirred == nil {
			e.stirred = make(chan struct{})
		}
		stirred := e.stirred
		e.mu.Unlock()
		select {
		case <-stirred:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wake tells those who wait for one of the claims to look.
func (w Waiters) Wake(ids ...string) { w.e.wake(ids...) }

// Look finds, with one read for all who wait and one for each name that is
// watched, whom to tell. It is for when the store has changed, or may have.
func (w Waiters) Look(ctx context.Context) error {
	e := w.e
	e.mu.Lock()
	before := make([]string, 0, len(e.waiters))
	for id := range e.waiters {
		before = append(before, id)
	}
	names := make([]string, 0, len(e.watchers))
	for name := range e.watchers {
		names = append(names, name)
	}
	e.mu.Unlock()
	if len(before) > 0 {
		a := &Args{}
		a.text[Live] = e.d.Live
		still, err := e.read(ctx, e.q.still, a)
		if err != nil {
			return err
		}
		slices.Sort(still)
		e.wake(slices.DeleteFunc(before, func(id string) bool {
			_, waits := slices.BinarySearch(still, id)
			return waits
		})...)
	}
	for _, name := range names {
		if err := e.lookAfter(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Probe ends the claims of dead processes that are in the way of this one's, and
// settles lines that were left unsettled. It is for every now and then, and
// costs two reads.
func (w Waiters) Probe(ctx context.Context) error {
	e := w.e
	a := &Args{}
	a.text[Live] = e.d.Live
	for again := e.d.Census != nil; again; { // behind one dead process may stand the next
		lives, err := e.read(ctx, e.q.rivals, a)
		if err != nil {
			return err
		}
		if again, err = e.buryDead(ctx, lives); err != nil {
			return err
		}
	}
	keys, err := e.read(ctx, e.q.stuck, a)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := e.settle(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
