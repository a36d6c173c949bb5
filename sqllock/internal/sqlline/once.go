package sqlline

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/once/record"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A Once is the record of one key in one transaction of the user's, for sqllock.OnceTx.
type Once struct {
	e       *Engine
	u       *sqlstore.UserTx
	tx      any
	args    *sqlstore.Args
	payload string // its hash
	keep    time.Duration
}

// engine is how NewOnce recognises an engine of this package, also one that a dialect
// has embedded.
func (e *Engine) engine() *Engine { return e }

// NewOnce returns the record of key, which is kept for keep, in the engine behind r.
func NewOnce(tx any, r driver.Records, key, payload string, keep time.Duration) (*Once, error) {
	of, ok := r.(interface{ engine() *Engine })
	if !ok {
		return nil, fmt.Errorf("%w: %T is not an SQL engine", driver.ErrUnsupported, r)
	}
	e := of.engine()
	if e.d.UserTx == nil {
		return nil, fmt.Errorf("%w: %s does not work in transactions of others", driver.ErrUnsupported, e.d.Name)
	}
	if keep <= 0 {
		return nil, fmt.Errorf("keep for %v", keep)
	}
	name, err := record.Name(key)
	if err != nil {
		return nil, err
	}
	return &Once{e: e, u: e.d.UserTx, tx: tx, args: e.named(name), payload: payload, keep: keep}, nil
}

// longestTx is how much longer than the result the record of running work is kept. It is
// visible only if a caller commits after a panic.
const longestTx = 24 * time.Hour

// Begin writes that the work runs, unless there is a record: then it returns that one.
func (o *Once) Begin(ctx context.Context) (rec record.Record, begun bool, err error) {
	o.e.sweepSoon()
	if err := o.lock(ctx); err != nil {
		return rec, false, err
	}
	rec = record.Record{State: record.Running, Fingerprint: o.payload, Attempts: 1, Started: time.Now(), WriteID: record.WriteID()}
	o.args.Text[sqlstore.ID] = rec.WriteID // by which Finish and Erase recognise the record
	running, err := rec.Marshal()
	if err != nil {
		return rec, false, err
	}
	const attempts = 10 // an attempt fails if a record is found and gone before it is read
	for range attempts {
		b, found, err := o.read(ctx, o.e.q.OnceFind)
		if err == nil && !found {
			begun, err = o.write(ctx, o.e.q.OnceBegin, running, o.keep+longestTx)
		}
		if err == nil && !found && !begun {
			b, found, err = o.read(ctx, o.e.q.OnceCurrent)
		}
		switch {
		case err != nil:
			return record.Record{}, false, o.explain(err)
		case begun || found && bytes.Equal(b, running):
			return rec, true, nil
		case found:
			current, err := record.Parse(b)
			return current, false, err
		}
	}
	return record.Record{}, false, driver.ErrConflict
}

// lock locks the key for this transaction, in dialects where inserting the record would
// not do: of several transactions that wait for one that is rolled back, all but one
// would end as deadlocks.
func (o *Once) lock(ctx context.Context) error {
	q := o.e.q
	if q.OnceLock.Empty() {
		return nil
	}
	if q.OnceRow.Empty() {
		_, err := o.run(ctx, q.OnceLock)
		return o.explain(err)
	}
	const attempts = 10 // the row may be swept between the two
	for range attempts {
		if made, err := o.makeRow(ctx); err != nil || !made {
			return err
		}
		if locked, err := o.run(ctx, q.OnceLock); err != nil || locked {
			return o.explain(err)
		}
	}
	return driver.ErrConflict
}

// rowTimeout bounds makeRow where it needs a connection of the user's pool: all the
// others may be waiting for the same, each with a transaction open.
const rowTimeout = time.Second

// makeRow makes the row that OnceLock locks, outside of the user's transaction. It
// reports false where there is no connection for it.
func (o *Once) makeRow(ctx context.Context) (made bool, err error) {
	within, cancel := ctx, func() {}
	if o.u.HasSpare != nil {
		if !o.u.HasSpare() {
			return false, nil
		}
		within, cancel = context.WithTimeout(ctx, rowTimeout)
	}
	defer cancel()
	err = o.e.read(within, o.e.q.OnceRow, o.args, func(sqlstore.Row) error { made = true; return nil })
	if err == nil && !made {
		err = o.e.d.Store.Run(within, &sqlstore.Batch{Steps: []sqlstore.Step{{Statement: o.e.q.MakeHead, Args: o.args}}})
		made = err == nil
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return made, err
}

// Finish records a result.
func (o *Once) Finish(ctx context.Context, rec *record.Record, codec string, result []byte) error {
	rec.State, rec.Ended, rec.WriteID = record.Done, time.Now(), record.WriteID()
	rec.Codec, rec.Result = codec, result
	return o.end(ctx, rec)
}

// Fail records a permanent error, and otherwise erases the record. It returns cause.
func (o *Once) Fail(ctx context.Context, rec record.Record, cause error) error {
	if !record.IsPermanent(cause) {
		o.Erase(ctx)
		return cause
	}
	rec.Fail(cause)
	if err := o.end(ctx, &rec); err != nil {
		return driver.Join(cause, err)
	}
	return cause
}

// end overwrites what Begin wrote, and no other record: a function that went back to a
// savepoint from before has undone Begin, and with it the lock, so that the record may
// be another transaction's by now.
func (o *Once) end(ctx context.Context, rec *record.Record) error {
	b, err := rec.Marshal()
	if err != nil {
		return err
	}
	if len(b) > driver.MaxRecord {
		return record.ErrTooLarge
	}
	ended, err := o.write(ctx, o.e.q.OnceFinish, b, o.keep)
	if err == nil && !ended {
		var current []byte
		current, _, err = o.read(ctx, o.e.q.OnceCurrent)
		ended = bytes.Equal(current, b)
	}
	if err == nil && !ended {
		err = fmt.Errorf("%w: the note that the work runs is not in the transaction any more", driver.ErrGone)
	}
	return o.explain(err)
}

// eraseTimeout bounds Erase, which does not depend on the caller's ctx: that may have
// ended while the transaction goes on.
const eraseTimeout = 5 * time.Second

// Erase deletes what Begin wrote. If it fails the transaction cannot be committed either.
func (o *Once) Erase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseTimeout)
	defer cancel()
	_, _ = o.run(ctx, o.e.q.OnceErase)
}

func (o *Once) write(ctx context.Context, q *sqlstore.Statement, value []byte, keep time.Duration) (row bool, err error) {
	o.args.Value = value
	o.args.SetDuration(sqlstore.Keep, max(keep, time.Microsecond))
	return o.run(ctx, q)
}

func (o *Once) run(ctx context.Context, q *sqlstore.Statement) (row bool, err error) {
	return o.u.Run(ctx, o.tx, q, o.withClock(), nil)
}

func (o *Once) read(ctx context.Context, q *sqlstore.Statement) (value []byte, row bool, err error) {
	row, err = o.u.Run(ctx, o.tx, q, o.withClock(), &value)
	return value, row, err
}

// withClock returns the arguments with the present time, where the client's clock counts.
func (o *Once) withClock() *sqlstore.Args {
	if o.u.Wall != nil {
		o.args.Num[sqlstore.Wall] = o.u.Wall()
	}
	return o.args
}

// explain wraps the database's error in what it means to the caller.
func (o *Once) explain(err error) error {
	is := func(recognise func(error) bool) bool { return recognise != nil && recognise(err) }
	switch {
	case err == nil:
		return nil
	case is(o.u.IsStale):
		return fmt.Errorf("%w: the transaction is older than what was committed since, begin it again: %w", driver.ErrConflict, err)
	case is(o.u.IsDeadlock):
		return fmt.Errorf("%w: the transaction was undone because of another's, begin it again: %w", driver.ErrConflict, err)
	case is(o.u.IsTimeout):
		return fmt.Errorf("%w: %w", record.ErrRunning, err)
	}
	return err
}
