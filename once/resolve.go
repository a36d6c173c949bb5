package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipe"
)

// LockName returns the name of the lock that whoever runs a key's work holds, as
// [pawl.Client.List] shows it; nothing if the key makes no sense.
func LockName(key string) string {
	name, _ := recipe.Name("once", key)
	return name
}

// Find returns what is kept of a key; the zero Record if nothing is.
func Find(ctx context.Context, c *pawl.Client, key string) (Record, error) {
	j, err := newJob(c, key, nil)
	if err != nil {
		return Record{}, j.fail(Record{}, err)
	}
	rec, _, err := j.load(ctx)
	if err != nil {
		return rec, j.fail(rec, err)
	}
	return rec, nil
}

// Forget lets a key's work run again, whatever is kept of it. It is how an operator
// resolves an unknown outcome that turned out not to have happened. ErrRunning says
// that somebody runs it now; a key of which nothing is kept is no error.
func Forget(ctx context.Context, c *pawl.Client, key string) error {
	return resolve(ctx, c, key, nil, func(j *job, ctx context.Context, _ *pawl.Lease, rec Record, version uint64) error {
		if version == 0 {
			return nil
		}
		_, err := recipe.Put(ctx, j.records, j.name, nil, version, 0, silence)
		return err
	})
}

// Complete says that a key's work was done, with this result. It is how an operator
// resolves an unknown outcome that turned out to have happened. ErrRunning says that
// somebody runs it now, ErrFinished that the outcome is known already.
func Complete[T any](ctx context.Context, c *pawl.Client, key string, value T, opts ...Option) error {
	return resolve(ctx, c, key, opts, func(j *job, ctx context.Context, lease *pawl.Lease, rec Record, version uint64) error {
		if rec.State == Done || rec.State == Failed {
			return j.fail(rec, ErrFinished)
		}
		codec, result, err := recipe.Encode(value)
		if err != nil {
			return err
		}
		now := time.Now()
		if rec.State == "" {
			rec.Started, rec.Fingerprint = now, j.o.print
		}
		rec.State, rec.Codec, rec.Ended, rec.Token, rec.WriteID = Done, codec, now, lease.Token(), recipe.WriteID()
		_, err = j.put(ctx, &rec, result, version, j.o.keep)
		return err
	})
}

// resolve has a record changed by somebody who is not running the work. It takes
// the key's lock, so that nobody is.
func resolve(ctx context.Context, c *pawl.Client, key string, opts []Option, change func(*job, context.Context, *pawl.Lease, Record, uint64) error) error {
	j, err := newJob(c, key, opts)
	if err != nil {
		return j.fail(Record{}, err)
	}
	if j.inside(ctx) {
		return j.fail(Record{}, ErrRunning)
	}
	err = c.Mutex(j.name, append(j.o.lock, pawl.WithWait(0))...).Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
		rec, version, err := j.load(ctx)
		if err != nil && (version == 0 || !errors.Is(err, ErrCodec)) { // an operator may replace what nobody can read
			return err
		}
		return change(j, ctx, lease, rec, version)
	})
	if errors.Is(err, pawl.ErrHeld) {
		err = fmt.Errorf("%w: %w", ErrRunning, err)
	}
	if err != nil {
		return j.fail(Record{}, err)
	}
	return nil
}
