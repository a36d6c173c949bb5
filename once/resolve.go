package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipe"
)

// LockName returns the name of the lock that a run of the key holds, as
// [pawl.Client.List] shows it; "" if the key is invalid.
func LockName(key string) string {
	name, _ := recipe.Name("once", key)
	return name
}

// Find returns the record of a key; the zero Record if there is none.
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

// Forget lets a key's work run again, whatever its record says. It is how an operator
// resolves an unknown outcome that turned out not to have happened. ErrRunning says
// that a run is under way; a key without a record is not an error.
func Forget(ctx context.Context, c *pawl.Client, key string) error {
	return resolve(ctx, c, key, nil, func(j *job, ctx context.Context, _ *pawl.Lease, rec Record, version uint64) error {
		if version == 0 {
			return nil
		}
		_, err := recipe.Put(ctx, j.records, j.name, nil, version, 0, retryFor)
		return err
	})
}

// Complete says that a key's work was done, with this result. It is how an operator
// resolves an unknown outcome that turned out to have happened. ErrRunning says that
// a run is under way, ErrFinished that the outcome is known already.
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
			rec.Started, rec.Fingerprint = now, j.o.fingerprint
		}
		rec.State, rec.Codec, rec.Ended, rec.Token, rec.WriteID = Done, codec, now, lease.Token(), recipe.WriteID()
		_, err = j.put(ctx, &rec, result, version, j.o.keep)
		return err
	})
}

// resolve changes a record from outside a run. It takes the key's lock, so that no run
// is under way.
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
		if err != nil && (version == 0 || !errors.Is(err, ErrCodec)) { // an operator may replace a record that cannot be read
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
