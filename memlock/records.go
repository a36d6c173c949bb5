package memlock

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

type record struct {
	value   []byte
	version uint64
	until   time.Time // zero: kept for ever
}

func (r record) ended(now time.Time) bool { return !r.until.IsZero() && !r.until.After(now) }

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.records[key]
	if !ok || r.ended(time.Now()) {
		return nil, 0, nil
	}
	return bytes.Clone(r.value), r.version, nil
}

// Store writes a record if its version is still ifVersion.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	old := e.records[key]
	if old.ended(now) {
		old = record{}
	}
	if old.version != ifVersion {
		return old.version, driver.ErrConflict
	}
	if value == nil {
		delete(e.records, key)
		return 0, nil
	}
	e.last++ // the tokens' counter: a version is never used again, not even after a delete
	r := record{value: append([]byte{}, value...), version: e.last}
	if keep > 0 {
		r.until = now.Add(keep)
	}
	e.records[key] = r
	e.sweepLocked(now)
	return r.version, nil
}

// sweepLocked forgets ended records whenever their number has doubled, so that
// the cost of a Store stays constant on average.
func (e *Engine) sweepLocked(now time.Time) {
	if len(e.records) < e.sweepAt {
		return
	}
	for key, r := range e.records {
		if r.ended(now) {
			delete(e.records, key)
		}
	}
	e.sweepAt = max(1024, 2*len(e.records))
}
