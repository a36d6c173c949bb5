package memlock

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// records are those of an engine.
type records struct {
	byKey map[string]record
	limit int // forget ended records when there are this many
}

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
	r := e.records.find(key, e.nowLocked())
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
	now := e.nowLocked()
	if old := e.records.find(key, now); old.version != ifVersion {
		return old.version, driver.ErrConflict
	}
	if value == nil {
		delete(e.records.byKey, key)
		return 0, nil
	}
	e.last++ // the tokens' counter: a version is never used again, not even after a delete
	r := record{value: append([]byte{}, value...), version: e.last}
	if keep > 0 {
		r.until = now.Add(keep)
	}
	e.records.byKey[key] = r
	e.records.sweep(now)
	return r.version, nil
}

// find returns a record; without one its version is 0.
func (a *records) find(key string, now time.Time) record {
	if r := a.byKey[key]; !r.ended(now) {
		return r
	}
	return record{}
}

// sweep forgets ended records whenever their number has doubled, so that the cost of a
// Store stays constant on average.
func (a *records) sweep(now time.Time) {
	if len(a.byKey) < max(1024, a.limit) {
		return
	}
	for key, r := range a.byKey {
		if r.ended(now) {
			delete(a.byKey, key)
		}
	}
	a.limit = 2 * len(a.byKey)
}
