package kvline

import (
	"context"
	"errors"
	"time"
)

// A Store is values by key that can be compared and swapped, notices between clients,
// and a clock. Keys are made of letters, digits and the characters . / - _ =.
//
// Errors are those of package driver. Every call returns soon after its ctx has ended.
type Store interface {
	// Get returns a key's value, whose data the caller may change. It may be one that has
	// been replaced since: no read alone decides anything, nor that there is none. Neither
	// Get nor Keys makes anything in the store: people look with them.
	Get(ctx context.Context, key string) (Value, error)

	// Put writes v.Data under a key whose value still has v.Revision, and returns the
	// revision of this write, which is larger than that of every earlier write to any
	// key and below 1<<55. ErrConflict says that the value has another revision; nothing
	// was written then, nor where the error is driver.ErrDenied. The store deletes the
	// value at some time after keep, or never if keep is 0. nil Data deletes; then keep is
	// for how long the store must know the revision of the deletion at least, so that a
	// write that names an earlier one is refused.
	Put(ctx context.Context, key string, v Value, keep time.Duration) (revision uint64, err error)

	// Keys returns the keys that begin with prefix.
	Keys(ctx context.Context, prefix string) ([]string, error)

	// Now returns a time that the store's clock has certainly reached: it asks the store,
	// unless an answer is at most maxAge old.
	Now(ctx context.Context, maxAge time.Duration) (time.Time, error)

	// Notify sends a notice to those who listen to an address at this moment. It may be
	// lost.
	Notify(address, text string)

	// Listen receives notices, as [driverkit.Listen] demands.
	Listen(ctx context.Context, address string, up func(), message func(string)) error

	// Close is called when the engine has ended everything else.
	Close() error
}

// A Teller is a Store that sends a notice with a write, and not after its answer: so a turn
// takes one round trip, and not two.
type Teller interface {
	// PutTelling is Put. If the value is written, those who listen to address at this moment
	// receive text with the revision in decimal digits behind it. The notice may be lost.
	PutTelling(ctx context.Context, key string, v Value, keep time.Duration, address, text string) (revision uint64, err error)
}

// A Value is what a key has.
type Value struct {
	Data     []byte    // nil: there is none
	Revision uint64    // of the write that made it or deleted it; 0: there was none, or the store has forgotten it
	Time     time.Time // of that write, by the store's clock
}

// ErrConflict says that a value has another revision than expected.
var ErrConflict = errors.New("another revision")
