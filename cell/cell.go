// Package cell keeps small values that many change without a lock: read, compute,
// write if nobody else wrote meanwhile, else again.
//
// It does not keep fn from running more than once: what fn does beside computing
// its result happens as often as fn runs. A cell holds at most 64 KiB in the store,
// coded as JSON, or as it is for a []byte. It needs an engine that keeps records;
// on any other, every call is [pawl.ErrUnsupported].
package cell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
)

// The errors of this package, beside those of pawl.
var (
	// ErrConflict says that the cell has another version than the one named;
	// nothing was written.
	ErrConflict = driver.ErrConflict
	// ErrTooLarge says that a value is larger than 64 KiB once coded; nothing was
	// written.
	ErrTooLarge = driver.ErrTooLarge
	// ErrCodec says that a value cannot be coded, or that the cell was written with
	// a codec that is not known here.
	ErrCodec = recipe.ErrCodec
)

// patience is how many conflicts in a row Update takes before it asks for the
// cell's lock. Rivals then stand in line, so that a hot cell cannot livelock.
const patience = 2

// silence is for how long a write that gets no answer is repeated.
const silence = 500 * time.Millisecond

// Error says which operation on which cell failed.
type Error struct {
	Op, Key string
	Err     error
}

// Error returns the operation, the key and what went wrong.
func (e *Error) Error() string { return fmt.Sprintf("%s cell %q: %v", e.Op, e.Key, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// An Option changes one write.
type Option func(*options)

type options struct{ keep time.Duration }

// Keep lets the cell end d after this write; the default is to keep it for ever.
func Keep(d time.Duration) Option { return func(o *options) { o.keep = d } }

// Load returns a cell's value and version. A cell that is not there is the zero
// value and version 0.
func Load[T any](ctx context.Context, c *pawl.Client, key string) (value T, version uint64, err error) {
	s, err := open(c, key, nil)
	if err == nil {
		value, version, err = load[T](ctx, s)
	}
	return value, version, fail("load", key, err)
}

// Store writes value if the cell's version is still ifVersion (0: if there is no
// cell) and returns the new version, which is never used again. ErrConflict comes
// with the version that stands. ErrUnknown says that the store gave no answer and
// that the write may or may not have happened.
func Store[T any](ctx context.Context, c *pawl.Client, key string, value T, ifVersion uint64, opts ...Option) (version uint64, err error) {
	s, err := open(c, key, opts)
	if err == nil {
		version, err = store(ctx, s, value, ifVersion)
	}
	return version, fail("store", key, err)
}

// Delete removes the cell if its version is still ifVersion.
func Delete(ctx context.Context, c *pawl.Client, key string, ifVersion uint64) error {
	s, err := open(c, key, nil)
	if err == nil {
		_, err = recipe.Put(ctx, s.records, s.name, nil, ifVersion, 0, silence)
	}
	return fail("delete", key, err)
}

// Update replaces the cell's value by what fn makes of it, and returns that. fn
// gets the zero value where there is no cell, and runs again when somebody else
// wrote meanwhile; its error ends the update and nothing is written. ErrUnknown
// says that the store gave no answer and that the write may have happened: it is
// not repeated then, so that no update counts twice.
func Update[T any](ctx context.Context, c *pawl.Client, key string, fn func(old T) (T, error), opts ...Option) (T, error) {
	if fn == nil {
		panic("cell: Update without a function")
	}
	var zero T
	s, err := open(c, key, opts)
	if err != nil {
		return zero, fail("update", key, err)
	}
	value, err := attempt(ctx, s, fn, patience)
	if errors.Is(err, ErrConflict) {
		err = c.Mutex(s.name).Do(ctx, func(ctx context.Context, _ *pawl.Lease) error {
			// Who has not lost often enough yet does not stand in line, so a conflict
			// is still possible; but each is somebody's success.
			value, err = attempt(ctx, s, fn, -1)
			return err
		})
		if err != nil && value.wrote { // what was written stands, whatever became of the lock
			err = nil
		}
	}
	if err != nil {
		return zero, fail("update", key, err)
	}
	return value.T, nil
}

// A written value is what attempt has come to.
type written[T any] struct {
	T     T
	wrote bool
}

// attempt reads, computes and writes until nobody came in between, or so many
// times; -1 for ever.
func attempt[T any](ctx context.Context, s *slot, fn func(T) (T, error), times int) (written[T], error) {
	for try := 0; ; try++ {
		old, version, err := load[T](ctx, s)
		if err != nil {
			return written[T]{}, err
		}
		value, err := fn(old)
		if err != nil {
			return written[T]{}, err
		}
		switch _, err = store(ctx, s, value, version); {
		case err == nil:
			return written[T]{value, true}, nil
		case !errors.Is(err, ErrConflict) || try+1 == times:
			return written[T]{}, err
		}
		if times < 0 { // those in line behind us would wait too
			continue
		}
		if !recipe.Pause(ctx, try) {
			return written[T]{}, context.Cause(ctx)
		}
	}
}

// A slot is where a cell is kept.
type slot struct {
	records driver.Records
	name    string
	o       options
}

func open(c *pawl.Client, key string, opts []Option) (*slot, error) {
	s := &slot{}
	for _, opt := range opts {
		opt(&s.o)
	}
	if s.o.keep < 0 {
		return nil, fmt.Errorf("%w: keep for %v", pawl.ErrInvalid, s.o.keep)
	}
	var err error
	if s.name, err = recipe.Name("cell", key); err != nil {
		return nil, err
	}
	s.records, err = c.Records()
	return s, err
}

// A cell in the store is its codec, a mark that no other write has, and the value:
// "json MARK\n…".
func load[T any](ctx context.Context, s *slot) (value T, version uint64, err error) {
	b, version, err := recipe.Get(ctx, s.records, s.name)
	if err != nil || version == 0 {
		return value, 0, err
	}
	head, body, ok := strings.Cut(string(b), "\n")
	codec, _, marked := strings.Cut(head, " ")
	if !ok || !marked {
		return value, version, fmt.Errorf("%w: not written as a cell", ErrCodec)
	}
	return value, version, recipe.Decode(codec, []byte(body), &value)
}

func store[T any](ctx context.Context, s *slot, value T, ifVersion uint64) (uint64, error) {
	codec, body, err := recipe.Encode(value)
	if err != nil {
		return 0, err
	}
	b := append([]byte(codec+" "+recipe.Mark()+"\n"), body...)
	return recipe.Put(ctx, s.records, s.name, b, ifVersion, s.o.keep, silence)
}

func fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{op, key, err}
}
