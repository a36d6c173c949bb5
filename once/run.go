package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
	"github.com/pawl-go/pawl/once/record"
)

// A run is one call of the function, from the record that says that it began to the
// one with its result. The second replaces exactly the version of the first, so a run
// that another has taken over cannot store, whatever it believes about its lease.
type run struct {
	*job
	lease   *pawl.Lease
	rec     Record
	version uint64
}

// begin writes that the work runs, unless it is done or must not run: then the
// record of the run says so.
func begin(ctx context.Context, j *job, lease *pawl.Lease) (*run, error) {
	rec, version, err := j.load(ctx)
	if err != nil {
		return nil, j.fail(rec, err)
	}
	if rec.State != "" && (rec.State != Running || j.mismatch(rec)) {
		return &run{rec: rec}, nil
	}
	// The lock is ours, so the runner that began before has died or was cut off; unless
	// it was this job, whose lease was lost before the function began.
	if rec.State == Running && (j.o.hold || rec.Hold) && rec.WriteID != j.begun {
		rec.State, rec.WriteID = Unknown, recipe.WriteID()
		if _, err := j.put(lease.Context(), &rec, nil, version, 0); err != nil {
			return nil, j.fail(rec, err)
		}
		return &run{rec: rec}, nil
	}
	rec = Record{State: Running, Fingerprint: j.o.fingerprint, Hold: j.o.hold, Attempts: rec.Attempts + 1, Token: lease.Token(), Started: time.Now(), WriteID: recipe.WriteID()}
	j.begun = rec.WriteID
	// Not under ctx: if it ended now, nobody would know whether the work began.
	if version, err = j.put(lease.Context(), &rec, nil, version, j.keepRunning()); err != nil {
		return nil, j.fail(rec, err)
	}
	r := &run{job: j, lease: lease, rec: rec, version: version}
	if ctx.Err() != nil {
		return nil, j.fail(rec, driver.Join(context.Cause(ctx), r.erase()))
	}
	return r, nil
}

// succeeded stores the result, or why there is none. It does so also if the caller's
// context has ended by now: that bounded the work, and the work is done.
func (r *run) succeeded(codec string, result []byte, cause error) error {
	if err := r.lease.Err(); err != nil {
		return r.fail(r.rec, lost(err))
	}
	rec := r.rec
	rec.WriteID = recipe.WriteID()
	rec.State, rec.Ended = Done, time.Now()
	if rec.Codec = codec; cause != nil {
		rec.Missing = record.MissingCodec
	}
	err := r.end(rec, result)
	if errors.Is(err, driver.ErrTooLarge) {
		cause = err
		rec.Codec, rec.Missing, rec.WriteID = "", record.MissingTooLarge, recipe.WriteID()
		err = r.end(rec, nil)
	}
	if err == nil {
		err = cause
	}
	if err != nil {
		return r.fail(rec, err)
	}
	return nil
}

// failed stores an error that is to be kept, and else frees the key.
func (r *run) failed(ctx context.Context, cause error) error {
	if err := r.lease.Err(); err != nil {
		return driver.Join(cause, r.fail(r.rec, lost(err)))
	}
	if !record.IsPermanent(cause) && (!r.o.keepErrors || ctx.Err() != nil) {
		if err := r.erase(); err != nil {
			return driver.Join(cause, r.fail(r.rec, err))
		}
		return cause
	}
	rec := r.rec
	rec.Fail(cause)
	if err := r.end(rec, nil); err != nil {
		return driver.Join(cause, r.fail(rec, err))
	}
	return cause
}

// end writes the last record of the run.
func (r *run) end(rec Record, result []byte) error {
	_, err := r.put(r.lease.Context(), &rec, result, r.version, r.o.keep)
	return r.overtaken(err)
}

// erase frees the key: the record is deleted.
func (r *run) erase() error {
	if err := r.lease.Err(); err != nil {
		return lost(err)
	}
	_, err := recipe.Put(r.lease.Context(), r.records, r.name, nil, r.version, 0, retryFor)
	return r.overtaken(err)
}

// overtaken turns a conflict into ErrLost: only the holder of the lock writes, so
// another process has it, or had.
func (r *run) overtaken(err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return fmt.Errorf("%w: another has taken over", pawl.ErrLost)
	}
	if over := r.lease.Err(); err != nil && over != nil {
		return driver.Join(err, lost(over))
	}
	return err
}

// lost returns ErrLost for the end of a lease, whatever the reason was.
func lost(why error) error {
	if errors.Is(why, pawl.ErrLost) {
		return why
	}
	return fmt.Errorf("%w: %w", pawl.ErrLost, why)
}
