package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// ErrLocked is in the error of a Store if a transaction that does not end, such as a
// guarded one, holds a row, and the batch was rolled back.
var ErrLocked = errors.New("row is held by an open transaction")

// A Store runs statements. Its errors are wrapped in the driver's sentinels where one
// fits, and are otherwise raw.
type Store interface {
	// Run executes a batch. A batch of one step is that statement alone.
	Run(ctx context.Context, b *Batch) error
}

// A Batch is a list of statements that are executed as one transaction.
type Batch struct {
	Steps    []Step
	Durable  bool // survives a power cut once Run has returned
	Beat     bool // prolongs claims, so it must not queue behind the user's own work
	MayBlock bool // a beat that waits for a locked row: no other beat may queue behind it. There is one at a time
	ReadOnly bool // changes nothing, needs no transaction, and sees every batch that had ended when it began
	NoWait   bool // fails with ErrLocked instead of waiting for a row that is locked for long

	Aborted bool // set by Run: a required step rolled everything back
	Missing bool // set by Run: a step found no row to lock, which rolled everything back
}

// A Step is one statement of a batch.
type Step struct {
	Statement *Statement
	Args      *Args
	Row       func(Row) error // called for each row; nil: rows are ignored

	// Required rolls the batch back if the first column of the step's row is 0, or, in
	// a dialect that cannot read between two statements, if the statement fails on
	// purpose. Rows of earlier steps are delivered all the same.
	Required bool

	// LocksHead says that the statement fails on purpose if the name has no head row.
	LocksHead bool
}

// A Row is a row of a result; *sql.Rows is one. Scan is given *int64, *string or
// *[]byte for each column.
type Row interface {
	Scan(dest ...any) error
}

// An Examined is what the examiner of a store (package sqldoctor) uses of an engine, so
// that it reads the URL, the passwords and the tables' names as the engine does.
type Examined struct {
	Meta, Head, Claim, Record string // the tables, as they stand in statements
	Version                   int    // of the tables that this program knows

	Conns        int  // the most connections that calls use at a time; 0: not known
	Further      int  // connections beside these, for beats and notices
	MultiPrimary bool // several servers that accept writes are permitted

	// With runs fn on one connection. Its errors, and those of q, are the store's.
	With func(ctx context.Context, fn func(q Query) error) error

	// Pooler reports whether a pooler is in between, and whether it assigns connections
	// per transaction. Nil: that cannot be known.
	Pooler func(ctx context.Context) (found, perTransaction bool, err error)
}

// A Query runs one statement that only reads, and returns its rows as text. Null is "".
type Query func(ctx context.Context, text string) ([][]string, error)

// Repeat sends a batch and delivers its rows. It sends the batch again, until ctx ends, if
// refused recognises the error with which the server rolled it back.
func (b *Batch) Repeat(ctx context.Context, send func() ([]Rows, error), refused func(error) bool) error {
	for n := 0; ; n++ {
		got, err := send()
		switch {
		case b.Missing:
			return nil
		case err == nil || b.Aborted:
			return b.deliver(got)
		case !refused(err) || !backoff(ctx, n):
			return err
		}
	}
}

// FailedAt notes that step i failed, and that this rolled the batch back on purpose if the
// error is the one with which its statement does so.
func (b *Batch) FailedAt(i int, onPurpose bool) {
	b.Aborted, b.Missing = b.Steps[i].Required && onPurpose, b.Steps[i].LocksHead && onPurpose
}

// WithCtxErr adds ctx's error to err if ctx has ended: a client may report that like any
// other broken connection.
func WithCtxErr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// backoff sleeps before attempt n+1 of a batch that the server refused, longer with
// each attempt and with jitter. A batch that was refused so often that it is not other
// callers who are in its way, but a transaction that stays open, is sent a few times a
// second. It reports false if ctx ended first.
func backoff(ctx context.Context, n int) bool {
	most := min(time.Duration(n+1)*time.Millisecond, 20*time.Millisecond)
	if n >= 30 {
		most = 500 * time.Millisecond
	}
	return driverkit.Pause(ctx, rand.N(most)+100*time.Microsecond)
}
