// Package once runs the work of a key once, and gives duplicates its result.
//
// What it does not promise, because nothing can: if a process has an effect elsewhere
// and dies before its result is kept, nobody knows that the effect has happened. The
// caller chooses what is done about that. By default, [WithRetry], the next caller
// runs the work again; so the work should be repeatable, or have the effect refuse a
// token ([Token]) that is smaller than one it has seen. With [WithHold] nobody runs it
// again until somebody has found out what happened and said so, by [Forget] or
// [Complete].
//
// One lease covers a run. A runner that lost it cannot store its result any more, and
// its context ends before another run can begin; effects that it had until then stay.
//
// A key is 1 to 1024 bytes of UTF-8 without control characters. The engine must
// keep records; on any other every call is [pawl.ErrUnsupported].
package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
	"github.com/pawl-go/pawl/once/record"
)

// The errors of this package, beside those of pawl. Each comes as the Err of an
// *[Error], which carries the record.
var (
	// ErrRunning says that another caller runs the key's work, and that the time to
	// wait for it is over.
	ErrRunning = record.ErrRunning
	// ErrMismatch says that the key was used before with another payload.
	ErrMismatch = record.ErrMismatch
	// ErrUnknownOutcome says that a run with WithHold began and did not complete.
	ErrUnknownOutcome = record.ErrUnknownOutcome
	// ErrFailed says that the work failed before, with an error that was to be
	// remembered; Record has its text.
	ErrFailed = record.ErrFailed
	// ErrFinished says that there is nothing left to resolve.
	ErrFinished = record.ErrFinished
	// ErrTooLarge says that the work was done but that its record, with the result, is
	// larger than 64 KiB: it is not done again, and only the runner got the result.
	ErrTooLarge = record.ErrTooLarge
	// ErrCodec says that the work was done but that its result cannot be encoded as
	// JSON, or not be decoded into the type that is asked for.
	ErrCodec = record.ErrCodec
)

// Error says what went wrong with a key (Key, Err), and carries its Record.
type Error = record.Error

// Do returns what fn returned when it ran for key: now, or before. If another caller
// runs it at this moment, Do waits for the result; if that runner dies, one of the
// waiting callers takes over.
//
// fn's context ends with ctx, and when the lease is lost; [Token] has its token. With
// that context the same key is [pawl.ErrReentry].
// An error of fn is returned as it is and not kept, so that the next call runs
// again; see [WithKeepErrors] and [Permanent]. A panic is passed on and not kept.
//
// ErrLost says that the lease was lost while fn ran: its result was not kept.
// ErrUnknown says that fn ran and that the store did not say whether the result was
// kept. With these, and with ErrTooLarge and ErrCodec, the caller whose fn ran gets the
// result beside the error.
func Do[T any](ctx context.Context, c *pawl.Client, key string, fn func(ctx context.Context) (T, error), opts ...Option) (T, error) {
	if fn == nil {
		panic("once: Do without a function")
	}
	var zero T
	j, err := newJob(c, key, opts)
	if err != nil {
		return zero, j.fail(Record{}, err)
	}
	rec, _, err := j.load(ctx)
	if err != nil {
		return zero, j.fail(Record{}, err)
	}
	if v, decided, err := answer[T](j, rec); decided {
		return v, err
	}
	if j.inside(ctx) {
		return zero, j.fail(rec, pawl.ErrReentry)
	}
	for {
		var out outcome[T]
		err := c.Mutex(j.name, j.o.lock...).Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
			out = runUnder(ctx, j, lease, fn)
			return nil
		})
		switch {
		case out.unbegun && ctx.Err() == nil:
			continue
		case out.decided: // a loss of the lock after that changes nothing
			return out.value, out.err
		case errors.Is(err, pawl.ErrHeld):
			err = fmt.Errorf("%w: %w", ErrRunning, err)
		}
		return zero, j.fail(rec, err)
	}
}

// An outcome is the result of holding the lock once.
type outcome[T any] struct {
	value   T
	err     error
	decided bool // the lock was held
	unbegun bool // the lock was lost before the function began
}

// runUnder does the work while the lease is held, unless it was done meanwhile.
func runUnder[T any](ctx context.Context, j *job, lease *pawl.Lease, fn func(context.Context) (T, error)) outcome[T] {
	r, err := begin(ctx, j, lease)
	for errors.Is(err, driver.ErrConflict) && lease.Err() == nil {
		r, err = begin(ctx, j, lease) // a runner that was cut off wrote its record in between
	}
	if err != nil {
		over := lease.Err()
		if errors.Is(over, pawl.ErrClosed) && !errors.Is(err, over) {
			err = driver.Join(err, over) // the record was written under the lease's context, which Close ended
		}
		return outcome[T]{err: err, decided: true, unbegun: errors.Is(over, pawl.ErrLost)}
	}
	if v, decided, err := answer[T](j, r.rec); decided {
		return outcome[T]{value: v, err: err, decided: true}
	}
	v, err := call(ctx, r, fn)
	if err != nil {
		return outcome[T]{value: v, err: r.failed(ctx, err), decided: true}
	}
	codec, result, err := recipe.Encode(v)
	return outcome[T]{value: v, err: r.succeeded(codec, result, err), decided: true}
}

// call runs fn. If it panics, or ends its goroutine, the key is free again.
func call[T any](ctx context.Context, r *run, fn func(context.Context) (T, error)) (T, error) {
	returned := false
	defer func() {
		if !returned {
			_ = r.erase()
		}
	}()
	v, err := fn(context.WithValue(ctx, runKey{}, &running{r.lease, r.c, runningIn(ctx)}))
	returned = true
	return v, err
}

type runKey struct{}

// A running is the run that a function's context belongs to.
type running struct {
	lease *pawl.Lease
	c     *pawl.Client
	outer *running // the run that called Do
}

func runningIn(ctx context.Context) *running {
	r, _ := ctx.Value(runKey{}).(*running)
	return r
}

// inside reports whether ctx belongs to a run of the same key. A client made with
// WithReentry would give it the lock that the run itself holds, and would take the run
// for one that has died.
func (j *job) inside(ctx context.Context) bool {
	for r := runningIn(ctx); r != nil; r = r.outer {
		if r.c == j.c && r.lease.Name() == j.name && r.lease.Err() == nil {
			return true
		}
	}
	return false
}

// Lease returns the lease of the run that a function's context belongs to; nil for
// any other context. The function must not unlock it.
func Lease(ctx context.Context) *pawl.Lease {
	if r := runningIn(ctx); r != nil {
		return r.lease
	}
	return nil
}

// Token returns the fencing token of the run that a function's context belongs to;
// 0 for any other context. A later run of the key has a larger one.
func Token(ctx context.Context) uint64 {
	if lease := Lease(ctx); lease != nil {
		return lease.Token()
	}
	return 0
}

// answer returns the result that a record has; decided is false if the work is not
// finished.
func answer[T any](j *job, rec Record) (v T, decided bool, err error) {
	return record.Answer[T](j.key, j.o.fingerprint, rec)
}
