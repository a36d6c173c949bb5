// Package cell keeps small values that many processes change, by compare and swap:
// read, compute, write if the version is still the one that was read, else again.
//
// It does not keep fn from running more than once: side effects of fn happen as often
// as fn runs. A cell holds at most 64 KiB in the store, encoded as JSON, or as it is
// for a []byte. It needs an engine that keeps records; on any other, every call is
// [pawl.ErrUnsupported].
package cell

import (
	"context"
	"fmt"
	"strconv"
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
	// ErrTooLarge says that a value is larger than 64 KiB once encoded; nothing was
	// written.
	ErrTooLarge = driver.ErrTooLarge
	// ErrCodec says that a value cannot be encoded, or that the cell was written with
	// a codec that is not known here.
	ErrCodec = recipe.ErrCodec
)

// retryFor is how long a write that gets no answer is repeated.
const retryFor = 500 * time.Millisecond

// Error says which operation on which cell failed.
type Error struct {
	Op, Key string
	Err     error
}

// Error returns the operation, the key and what went wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("%s cell %q: %s", e.Op, e.Key, driver.OneLine(e.Err.Error()))
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// An Option changes one write.
type Option func(*options)

type options struct{ keep time.Duration }

// WithKeep lets the cell end d after this write; the default is to keep it for ever.
func WithKeep(d time.Duration) Option { return func(o *options) { o.keep = d } }

// Load returns a cell's value and version. A cell that is not there is the zero
// value and version 0.
func Load[T any](ctx context.Context, c *pawl.Client, key string) (value T, version uint64, err error) {
	s, err := open(c, key, nil)
	if err == nil {
		_, version, err = s.load(ctx, &value)
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
		version, err = store(ctx, s, value, ifVersion, 0)
	}
	return version, fail("store", key, err)
}

// Delete removes the cell if its version is still ifVersion.
func Delete(ctx context.Context, c *pawl.Client, key string, ifVersion uint64) error {
	s, err := open(c, key, nil)
	if err == nil {
		_, err = recipe.Put(ctx, s.records, s.name, nil, ifVersion, 0, retryFor)
	}
	return fail("delete", key, err)
}

// A record is a cell in the store.
type record struct {
	records driver.Records
	push    bool // a waiter in line is told of its turn
	name    string
	o       options
}

func open(c *pawl.Client, key string, opts []Option) (*record, error) {
	s := &record{push: c.Engine().Features().Push}
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

// A head is the first line of a cell in the store: the codec of the value that
// follows, the ID of the write, and the contention. "json ID 3".
type head struct {
	codec      string
	contention contention
}

func (s *record) load(ctx context.Context, value any) (h head, version uint64, err error) {
	b, version, err := recipe.Get(ctx, s.records, s.name)
	if err != nil || version == 0 {
		return h, 0, err
	}
	line, body, ok := strings.Cut(string(b), "\n")
	words := strings.Fields(line)
	if !ok || len(words) < 2 {
		return h, version, fmt.Errorf("%w: not written as a cell", ErrCodec)
	}
	h.codec = words[0]
	if len(words) > 2 {
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return h, version, fmt.Errorf("%w: not written as a cell", ErrCodec)
		}
		h.contention = contention(n)
	}
	return h, version, recipe.Decode(h.codec, []byte(body), value)
}

func store[T any](ctx context.Context, s *record, value T, ifVersion uint64, p contention) (uint64, error) {
	codec, body, err := recipe.Encode(value)
	if err != nil {
		return 0, err
	}
	b := append(fmt.Appendf(nil, "%s %s %d\n", codec, recipe.WriteID(), p), body...)
	return recipe.Put(ctx, s.records, s.name, b, ifVersion, s.o.keep, retryFor)
}

func fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{op, key, err}
}
