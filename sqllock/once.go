package sqllock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recordenc"
	"github.com/pawl-go/pawl/once/record"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
)

// An OnceOption changes one call of OnceTx.
type OnceOption func(*onceOptions)

type onceOptions struct {
	payload string // its hash
	keep    time.Duration
}

// WithPayload says what the key stands for, as the option of the same name in package
// once does: a call with another payload than the first fails with once.ErrMismatch.
// Only a hash is stored.
func WithPayload(b []byte) OnceOption {
	hash := record.Fingerprint(b)
	return func(o *onceOptions) { o.payload = hash }
}

// WithKeep sets how long the result is kept and duplicates are recognised. The default
// is 24 hours.
func WithKeep(d time.Duration) OnceOption { return func(o *onceOptions) { o.keep = d } }

// OnceTx returns the result of fn for key: from running fn now, in the caller's
// transaction, or from the record of an earlier run. The record is written in that
// transaction too, so that the effects of fn and the knowledge of them are committed
// together or not at all: the work of a key takes effect exactly once, whichever
// process dies at whatever moment. After an error the transaction must be rolled back.
//
// tx is a *sql.Tx, a type that embeds it, or a transaction of the dialect's own client
// (pgx.Tx), on the database in which the engine keeps its tables. r is that engine, as
// pawl.Client.Records returns it.
//
// A duplicate that arrives while the transaction is open waits for its end, until ctx
// ends or as long as the database permits. If the transaction was committed the
// duplicate returns its result, otherwise it runs fn itself. No lease is needed or
// taken.
//
// An error of fn is returned as it is and nothing is recorded, unless it was marked by
// once.Permanent and the caller commits: duplicates then fail with once.ErrFailed. Any
// other error is an *once.Error, which carries the record: once.ErrMismatch;
// once.ErrRunning for a key that once.Do has begun, or whose transaction did not end
// in time; once.ErrTooLarge and once.ErrCodec for a result that cannot be stored, which
// is returned beside the error. driver.ErrConflict says that the transaction's snapshot
// is older than a record committed meanwhile, or that the database rolled it back as a
// deadlock: begin it again and the result is there. driver.ErrGone says that fn went
// back to a savepoint from before OnceTx.
//
// Under READ COMMITTED OnceTx may come anywhere in the transaction. Under stricter
// levels, and on SQLite, it should be the first statement; then only PostgreSQL still
// refuses a duplicate that waited, with driver.ErrConflict. The record is that of
// package once: once.Find shows it, and once.Do returns its result.
func OnceTx[T any](ctx context.Context, tx any, r driver.Records, key string, fn func(ctx context.Context) (T, error), opts ...OnceOption) (T, error) {
	if fn == nil {
		panic("sqllock: OnceTx without a function")
	}
	var zero T
	o := onceOptions{keep: record.DefaultKeep}
	for _, opt := range opts {
		opt(&o)
	}
	once, err := sqlline.NewOnce(tx, r, key, o.payload, o.keep)
	if err != nil {
		return zero, record.Wrap(key, record.Record{}, err)
	}
	rec, begun, err := once.Begin(ctx)
	if err != nil {
		return zero, record.Wrap(key, rec, err)
	}
	if !begun {
		v, decided, err := record.Answer[T](key, o.payload, rec)
		if !decided {
			err = record.Wrap(key, rec, record.ErrRunning)
		}
		return v, err
	}
	v, err := callOnce(ctx, once, fn)
	if err != nil {
		return v, once.Fail(ctx, rec, err)
	}
	codec, result, err := recordenc.Encode(v)
	if err == nil {
		err = once.Finish(ctx, &rec, codec, result)
	}
	if err != nil {
		once.Erase(ctx)
		return v, record.Wrap(key, rec, err)
	}
	return v, nil
}

// callOnce runs fn. If fn panics or calls runtime.Goexit, the record is erased, also
// for a caller that commits all the same.
func callOnce[T any](ctx context.Context, once *sqlline.Once, fn func(context.Context) (T, error)) (T, error) {
	returned := false
	defer func() {
		if !returned {
			once.Erase(ctx)
		}
	}()
	v, err := fn(ctx)
	returned = true
	return v, err
}
