package sqllock

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recordenc"
	"github.com/pawl-go/pawl/once/record"
)

// A OnceOption changes one call of OnceTx.
type OnceOption func(*onceTx)

// OncePayload says what the key stands for, as once.WithPayload does: a call with
// another payload than the first is once.ErrMismatch. Only a hash is stored.
func OncePayload(b []byte) OnceOption {
	print := record.Fingerprint(b)
	return func(o *onceTx) { o.print = print }
}

// OnceKeep sets for how long the result is kept, and duplicates are recognised. The
// default is 24 hours.
func OnceKeep(d time.Duration) OnceOption { return func(o *onceTx) { o.keep = d } }

// OnceTx returns what fn returned when it ran for key: now, in the caller's
// transaction, or before. The record of it is written in that transaction too, so
// that what fn does there and the knowledge that it was done are committed together
// or not at all: the work of a key takes effect exactly once, whoever dies when.
// After an error the transaction must be rolled back.
//
// tx is a *sql.Tx, one that embeds it, or what the dialect's own client has
// (pgx.Tx), on the database in which the engine keeps its tables. r is that
// engine, as pawl.Client.Records returns it.
//
// A duplicate that comes while the transaction is open waits for its end, until ctx
// ends or as long as the database lets it, and gets the result if it was committed,
// else its turn. No lease is needed or taken.
//
// An error of fn is returned as it is and nothing is remembered. One that was marked
// by once.Permanent is, if the caller commits: duplicates then get once.ErrFailed.
// Any other error is an *once.Error, which carries the record: once.ErrMismatch;
// once.ErrRunning for a key that once.Do has begun, or whose runner was waited for in
// vain; once.ErrTooLarge and once.ErrCodec for a result that cannot be kept, which is
// returned beside the error. driver.ErrConflict says that the transaction's view is
// older than a record that was committed meanwhile, or that the database has ended it
// as deadlocked: begin it again and the result is there. driver.ErrGone says that fn
// went back to a savepoint from before OnceTx.
//
// Under READ COMMITTED OnceTx may come anywhere in the transaction. Under stricter
// levels, and on SQLite, it should be the first statement: a duplicate that waited is
// then refused with driver.ErrConflict on PostgreSQL alone, and on no other store.
// The record is that of package once: once.Find shows it, and once.Do answers with
// it.
func OnceTx[T any](ctx context.Context, tx any, r driver.Records, key string, fn func(ctx context.Context) (T, error), opts ...OnceOption) (T, error) {
	if fn == nil {
		panic("sqllock: OnceTx without a function")
	}
	var zero T
	o, err := newOnceTx(tx, r, key, opts)
	if err != nil {
		return zero, record.Wrap(key, record.Record{}, err)
	}
	rec, begun, err := o.begin(ctx)
	if err != nil {
		return zero, record.Wrap(key, rec, err)
	}
	if !begun {
		v, decided, err := record.Answer[T](key, o.print, rec)
		if !decided {
			err = record.Wrap(key, rec, record.ErrRunning)
		}
		return v, err
	}
	v, err := calledOnce(ctx, o, fn)
	if err != nil {
		return v, o.failed(ctx, rec, err)
	}
	codec, result, err := recordenc.Encode(v)
	if err == nil {
		err = o.succeeded(ctx, &rec, codec, result)
	}
	if err != nil {
		o.erase(ctx)
		return v, record.Wrap(key, rec, err)
	}
	return v, nil
}

// calledOnce runs fn. If it panics, or ends its goroutine, nothing is remembered even
// if the transaction is committed.
func calledOnce[T any](ctx context.Context, o *onceTx, fn func(context.Context) (T, error)) (T, error) {
	returned := false
	defer func() {
		if !returned {
			o.erase(ctx)
		}
	}()
	v, err := fn(ctx)
	returned = true
	return v, err
}

// A onceTx is one key in one transaction.
type onceTx struct {
	e     *Engine
	g     *Guards
	tx    any
	args  *Args
	print string
	keep  time.Duration
}

// engine is how OnceTx knows an engine of this package, also one that a dialect has
// made more of.
func (e *Engine) engine() *Engine { return e }

func newOnceTx(tx any, r driver.Records, key string, opts []OnceOption) (*onceTx, error) {
	of, ok := r.(interface{ engine() *Engine })
	if !ok {
		return nil, fmt.Errorf("%w: %T is not an SQL engine", driver.ErrUnsupported, r)
	}
	o := &onceTx{e: of.engine(), tx: tx, args: &Args{}, keep: record.DefaultKeep}
	if o.g = o.e.d.Guards; o.g == nil {
		return nil, fmt.Errorf("%w: %s does not work in transactions of others", driver.ErrUnsupported, o.e.d.Name)
	}
	for _, opt := range opts {
		opt(o)
	}
	if o.keep <= 0 {
		return nil, fmt.Errorf("keep for %v", o.keep)
	}
	name, err := record.Name(key)
	if err != nil {
		return nil, err
	}
	o.args.text[Name] = o.e.key(name)
	return o, nil
}

// longestTx is for how long the note that the work runs is kept beyond the result.
// Nobody sees it unless a caller commits after a panic.
const longestTx = 24 * time.Hour

// begin writes that the work runs, unless a record stands: then it returns that one.
func (o *onceTx) begin(ctx context.Context) (rec record.Record, begun bool, err error) {
	o.e.sweepBeside()
	if err := o.lock(ctx); err != nil {
		return rec, false, err
	}
	rec = record.Record{State: record.Running, Fingerprint: o.print, Attempts: 1, Started: time.Now(), WriteID: record.WriteID()}
	o.args.text[ID] = rec.WriteID // by which end and erase know what is ours
	note, err := rec.Marshal()
	if err != nil {
		return rec, false, err
	}
	const tries = 10 // each is one whose record stood, and had gone when it was read
	for range tries {
		b, found, err := o.read(ctx, o.e.q.onceFind)
		if err == nil && !found {
			begun, err = o.write(ctx, o.e.q.onceBegin, note, o.keep+longestTx)
		}
		if err == nil && !found && !begun {
			b, found, err = o.read(ctx, o.e.q.onceStands)
		}
		switch {
		case err != nil:
			return record.Record{}, false, o.told(err)
		case begun || found && bytes.Equal(b, note):
			return rec, true, nil
		case found:
			stands, err := record.Parse(b)
			return stands, false, err
		}
	}
	return record.Record{}, false, driver.ErrConflict
}

// lock has the key for this transaction alone, where its record would not do: it
// would, but of several who wait there for one that is undone all but one are ended
// as deadlocked.
func (o *onceTx) lock(ctx context.Context) error {
	q := o.e.q
	if q.onceLock.Text == "" {
		return nil
	}
	if q.onceSeat.Text != "" {
		if seated, err := o.seat(ctx); err != nil || !seated {
			return err
		}
	}
	locked, err := o.run(ctx, q.onceLock)
	if err == nil && !locked && q.onceSeat.Text != "" {
		err = driver.ErrConflict // it was swept between the two
	}
	return o.told(err)
}

// seatPatience bounds how long the row to lock is waited for that has to be made
// outside of the caller's transaction, on a connection of the caller's pool: all the
// others may be waiting for the same, each with a transaction open.
const seatPatience = time.Second

// seat makes the row that lock locks. It reports false where no connection is to be
// had for it.
func (o *onceTx) seat(ctx context.Context) (seated bool, err error) {
	within, cancel := ctx, func() {}
	if spare := o.g.Spare; spare != nil {
		if !spare() {
			return false, nil
		}
		within, cancel = context.WithTimeout(ctx, seatPatience)
	}
	defer cancel()
	look := Step{Query: o.e.q.onceSeat, Args: o.args, Row: func(Row) error { seated = true; return nil }}
	err = o.e.d.Store.Read(within, &look)
	if err == nil && !seated {
		err = o.e.d.Store.Run(within, &Flight{Steps: []Step{{Query: o.e.q.head, Args: o.args}}})
		seated = err == nil
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return seated, err
}

func (o *onceTx) succeeded(ctx context.Context, rec *record.Record, codec string, result []byte) error {
	rec.State, rec.Ended, rec.WriteID = record.Done, time.Now(), record.WriteID()
	rec.Codec, rec.Result = codec, result
	return o.end(ctx, rec)
}

// failed keeps an error that is to be remembered, and else nothing.
func (o *onceTx) failed(ctx context.Context, rec record.Record, cause error) error {
	if !record.IsPermanent(cause) {
		o.erase(ctx)
		return cause
	}
	rec.Fail(cause)
	if err := o.end(ctx, &rec); err != nil {
		return driver.Join(cause, err)
	}
	return cause
}

// end writes the last word over what was begun, and over nothing else: a function
// that went back to a savepoint has undone that, and with it the exclusion of
// others, whose record may stand there by now.
func (o *onceTx) end(ctx context.Context, rec *record.Record) error {
	b, err := rec.Marshal()
	if err != nil {
		return err
	}
	if len(b) > driver.MaxRecord {
		return record.ErrTooLarge
	}
	ended, err := o.write(ctx, o.e.q.onceEnd, b, o.keep)
	if err == nil && !ended {
		var stands []byte
		stands, _, err = o.read(ctx, o.e.q.onceStands)
		ended = bytes.Equal(stands, b)
	}
	if err == nil && !ended {
		err = fmt.Errorf("%w: the note that the work runs is not in the transaction any more", driver.ErrGone)
	}
	return o.told(err)
}

// eraseTimeout bounds erase, which must not depend on the caller's ctx: it may have
// ended, and the transaction may live on.
const eraseTimeout = 5 * time.Second

// erase takes back that the work runs. Where it fails the transaction cannot be
// committed either.
func (o *onceTx) erase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseTimeout)
	defer cancel()
	_, _ = o.run(ctx, o.e.q.onceErase)
}

func (o *onceTx) write(ctx context.Context, q *Query, value []byte, keep time.Duration) (row bool, err error) {
	o.args.blob = value
	o.args.setDuration(Keep, max(keep, time.Microsecond))
	return o.run(ctx, q)
}

func (o *onceTx) run(ctx context.Context, q *Query) (row bool, err error) {
	return o.g.run(ctx, o.tx, q, o.timed(), nil)
}

func (o *onceTx) read(ctx context.Context, q *Query) (value []byte, row bool, err error) {
	row, err = o.g.run(ctx, o.tx, q, o.timed(), &value)
	return value, row, err
}

func (o *onceTx) timed() *Args {
	if o.g.Wall != nil {
		o.args.set(Wall, o.g.Wall())
	}
	return o.args
}

// told makes of the database's error what it means to the caller.
func (o *onceTx) told(err error) error {
	switch {
	case err == nil:
		return nil
	case o.g.Stale != nil && o.g.Stale(err):
		return fmt.Errorf("%w: the transaction is older than what was committed since, begin it again: %w", driver.ErrConflict, err)
	case o.g.Undone != nil && o.g.Undone(err):
		return fmt.Errorf("%w: the transaction was undone because of another's, begin it again: %w", driver.ErrConflict, err)
	case o.g.Busy != nil && o.g.Busy(err):
		return fmt.Errorf("%w: %w", record.ErrRunning, err)
	}
	return err
}
