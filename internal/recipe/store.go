package recipe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
)

// WriteID returns random text that no other write has.
func WriteID() string { return rand.Text() }

// Put stores value over the version ifVersion. A write that got no answer is repeated
// for retryFor, which is safe because it replaces that version only. If a repeat is
// answered with a conflict, Put reads the record: value must contain a WriteID, so if
// the record has this value, the first write arrived. If it has another, the first
// write may have been there in between: ErrUnknown.
func Put(ctx context.Context, r driver.Records, key string, value []byte, ifVersion uint64, keep, retryFor time.Duration) (uint64, error) {
	var noAnswer error
	for try, began := 0, time.Now(); ; try++ {
		version, err := r.Store(ctx, key, value, ifVersion, keep)
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, driver.ErrConflict):
			if noAnswer == nil {
				return version, err
			}
			return arrived(ctx, r, key, value, noAnswer)
		case refused(err):
			return 0, err
		}
		noAnswer = err
		if time.Since(began) > retryFor || !Pause(ctx, try) {
			return 0, fmt.Errorf("%w: %w", pawl.ErrUnknown, noAnswer)
		}
	}
}

// refused reports whether an error says that nothing was written.
func refused(err error) bool {
	return errors.Is(err, driver.ErrTooLarge) || errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrUnsupported)
}

// arrived finds out whether a write that got no answer has arrived. A deletion that
// finds no record is done, also if another process did it.
func arrived(ctx context.Context, r driver.Records, key string, value []byte, noAnswer error) (uint64, error) {
	now, version, err := Get(ctx, r, key)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", pawl.ErrUnknown, err)
	case value == nil && version == 0:
		return 0, nil
	case value != nil && version != 0 && bytes.Equal(now, value):
		return version, nil
	}
	return version, fmt.Errorf("%w: %w", pawl.ErrUnknown, noAnswer)
}

// maxReloads is how often a read that got no answer is repeated.
const maxReloads = 5

// Get loads a record, and repeats the read when there was no answer.
func Get(ctx context.Context, r driver.Records, key string) (value []byte, version uint64, err error) {
	for try := 0; ; try++ {
		value, version, err = r.Load(ctx, key)
		if err == nil || !errors.Is(err, driver.ErrUnreachable) || try == maxReloads || !Pause(ctx, try) {
			return value, version, err
		}
	}
}

// Pause waits before the next try: up to 2 ms after the first, doubled each time,
// at most 100 ms, with jitter so that competing writers do not collide again. It returns false if
// ctx has ended.
func Pause(ctx context.Context, try int) bool {
	longest := min(2*time.Millisecond<<min(try, 10), 100*time.Millisecond)
	t := time.NewTimer(jitter.N(longest) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
