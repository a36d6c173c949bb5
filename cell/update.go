package cell

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipe"
)

// maxConflicts is how many conflicts in a row Update accepts before it takes the
// cell's lock.
const maxConflicts = 2

// A contention is kept in the cell itself and tells every writer whether to take the
// cell's lock first. Without it a writer with a slow connection, which holds the lock,
// would lose for ever to a fast one that never sees a conflict: the slow one loads, the
// fast one writes, the slow one's write conflicts. From zero up it counts the writes
// without the lock in a row; after maxUnlocked of them the next writer takes the lock,
// and so waits in line behind the slow one. Below zero the cell is hot, and it counts
// the writes with the lock that are left before it is not.
type contention int

const (
	maxUnlocked         = 64 // writes without the lock in a row
	lockedAfterConflict = 32 // writes with it, after a conflict
)

// locked reports whether the next write is to be made with the lock.
func (p contention) locked() bool { return p < 0 || p >= maxUnlocked }

// next is the contention after a write, which may have had conflicts before. Where
// waiters poll for their turn the lock is slower than conflicts are: there a cell
// never becomes hot.
func (p contention) next(conflicts int, push bool) contention {
	switch {
	case conflicts > 0 && push:
		return -lockedAfterConflict
	case p >= maxUnlocked:
		return 0
	}
	return p + 1
}

// Update replaces the cell's value by what fn makes of it, and returns that. fn
// gets the zero value where there is no cell, and runs again when somebody else
// wrote meanwhile; its error ends the update and nothing is written. It must not
// itself update the same cell. ErrUnknown says that the store gave no answer and
// that the write may have happened: it is not repeated then, so that no update
// counts twice.
//
// Where many update one cell they wait in line for its lock, first come, first served:
// if a process dies while it holds the lock, the others wait for the client's TTL. A
// client made with WithWait waits no longer than that, and then writes without it.
func Update[T any](ctx context.Context, c *pawl.Client, key string, fn func(old T) (T, error), opts ...Option) (T, error) {
	if fn == nil {
		panic("cell: Update without a function")
	}
	s, err := open(c, key, opts)
	var value T
	if err == nil {
		value, err = change(ctx, c, s, fn)
	}
	if err != nil {
		var zero T
		return zero, fail("update", key, err)
	}
	return value, nil
}

func change[T any](ctx context.Context, c *pawl.Client, s *record, fn func(T) (T, error)) (T, error) {
	for try := range maxConflicts {
		value, again, err := attempt(ctx, s, fn, try, false)
		switch {
		case !again:
			return value, err
		case err == nil: // the cell is hot
			return changeLocked(ctx, c, s, fn, try)
		case !recipe.Pause(ctx, try):
			return value, context.Cause(ctx)
		}
	}
	return changeLocked(ctx, c, s, fn, maxConflicts)
}

// changeLocked makes the change while it holds the cell's lock. The lock only orders
// the writers: the versions see to it that no change is lost. So the change goes on if
// the lock is lost, and without it after the client's WithWait.
func changeLocked[T any](ctx context.Context, c *pawl.Client, s *record, fn func(T) (T, error), conflicts int) (value T, err error) {
	lease, err := c.Mutex(s.name).Lock(ctx)
	if err == nil {
		defer func() { _ = lease.Unlock() }() // what was written stands, whatever became of the lock
	} else if !errors.Is(err, pawl.ErrHeld) {
		return value, err
	}
	for ; ; conflicts++ {
		// A writer that began before the cell became hot may still write in between.
		// There is no pause while the lock is held: the line behind would wait too.
		value, again, err := attempt(ctx, s, fn, conflicts, true)
		switch {
		case !again:
			return value, err
		case ctx.Err() != nil, lease == nil && !recipe.Pause(ctx, conflicts):
			return value, context.Cause(ctx)
		}
	}
}

// attempt reads, computes and writes. again says to repeat it: after a conflict, or,
// without an error, with the lock.
func attempt[T any](ctx context.Context, s *record, fn func(T) (T, error), conflicts int, locked bool) (value T, again bool, err error) {
	var old T
	h, version, err := s.load(ctx, &old)
	if err != nil {
		return value, false, err
	}
	if h.contention.locked() && !locked {
		return value, true, nil
	}
	if value, err = fn(old); err != nil {
		return value, false, err
	}
	_, err = store(ctx, s, value, version, h.contention.next(conflicts, s.push))
	return value, errors.Is(err, ErrConflict), err
}
