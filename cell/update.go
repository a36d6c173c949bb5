package cell

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipe"
)

// patience is how many conflicts in a row Update takes before it asks for the
// cell's lock.
const patience = 2

// A pace is kept in the cell itself and tells everybody who changes it whether to
// stand in line for that. Without it one who waits long for the store, and holds the
// lock, would lose for ever to one who is quick and never sees a conflict: it loads,
// the quick one writes, its own write comes too late. From zero up it counts the
// writes without the lock: after so many of them the next writer, whoever it is,
// stands in line, and therefore behind the slow one. Below zero it counts what is
// left of a hot time, in which everybody does.
type pace int

const (
	span = 64 // writes without the lock in a row
	heat = 32 // writes with it, after a conflict
)

// inLine reports whether the next write is to be made with the lock.
func (p pace) inLine() bool { return p < 0 || p >= span }

// next is the pace after a write, which may have had conflicts before. A line in
// which nobody is told of its turn, but must look for it, is slower than conflicts
// are: there is no hot time there.
func (p pace) next(conflicts int, push bool) pace {
	switch {
	case conflicts > 0 && push:
		return -heat
	case p >= span:
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
// Where many update one cell they stand in line for it, first come, first served: if
// a process dies while its turn lasts, the others wait for the client's TTL. A client
// made with WithWait waits in line no longer than that, and then tries without.
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

func change[T any](ctx context.Context, c *pawl.Client, s *slot, fn func(T) (T, error)) (T, error) {
	for try := range patience {
		value, again, err := attempt(ctx, s, fn, try, false)
		switch {
		case !again:
			return value, err
		case err == nil: // the cell is hot
			return inLine(ctx, c, s, fn, try)
		case !recipe.Pause(ctx, try):
			return value, context.Cause(ctx)
		}
	}
	return inLine(ctx, c, s, fn, patience)
}

// inLine makes the change while it holds the cell's lock, which is there for the
// order alone: that no change is lost is due to the versions. So it goes on if the
// lock is lost, and without it if the client does not wait so long for locks.
func inLine[T any](ctx context.Context, c *pawl.Client, s *slot, fn func(T) (T, error), conflicts int) (value T, err error) {
	lease, err := c.Mutex(s.name).Lock(ctx)
	if err == nil {
		defer func() { _ = lease.Unlock() }() // what was written stands, whatever became of the lock
	} else if !errors.Is(err, pawl.ErrHeld) {
		return value, err
	}
	for ; ; conflicts++ {
		// Who had begun before the cell became hot may still come in between. Those
		// in line behind us would wait too, so there is no pause with the lock.
		value, again, err := attempt(ctx, s, fn, conflicts, true)
		switch {
		case !again:
			return value, err
		case ctx.Err() != nil, lease == nil && !recipe.Pause(ctx, conflicts):
			return value, context.Cause(ctx)
		}
	}
}

// attempt reads, computes and writes. It is to be made again after a conflict; and,
// without an error, where the cell is hot and the lock is not held.
func attempt[T any](ctx context.Context, s *slot, fn func(T) (T, error), conflicts int, locked bool) (value T, again bool, err error) {
	var old T
	h, version, err := s.load(ctx, &old)
	if err != nil {
		return value, false, err
	}
	if h.pace.inLine() && !locked {
		return value, true, nil
	}
	if value, err = fn(old); err != nil {
		return value, false, err
	}
	_, err = store(ctx, s, value, version, h.pace.next(conflicts, s.push))
	return value, errors.Is(err, ErrConflict), err
}
