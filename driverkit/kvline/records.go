package kvline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A record is stored behind this, for how long it is kept in nanoseconds, and a newline.
const recordMark = "pawl record "

// Load returns a record.
func (e *Engine) Load(ctx context.Context, key string) (value []byte, version uint64, err error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, 0, err
	}
	value, version, _, err = e.record(ctx, key)
	return value, version, err
}

// record returns a record, and the revision of its key, which one that was deleted or
// has expired may have too.
func (e *Engine) record(ctx context.Context, key string) (value []byte, version, revision uint64, err error) {
	v, err := e.store.Get(ctx, recordPrefix+encode(key))
	if err != nil || v.Data == nil {
		return nil, 0, v.Revision, err
	}
	head, value, _ := bytes.Cut(v.Data, []byte("\n"))
	text, ours := bytes.CutPrefix(head, []byte(recordMark))
	keep, err := strconv.ParseInt(string(text), 10, 64)
	if !ours || err != nil {
		return nil, 0, 0, e.keyError(key, errForeign)
	}
	if keep > 0 {
		now, err := e.store.Now(ctx, 0)
		if err != nil {
			return nil, 0, 0, err
		}
		if !v.Time.Add(time.Duration(keep)).After(now) {
			return nil, 0, v.Revision, nil
		}
	}
	return value, v.Revision, v.Revision, nil
}

// Store writes a record.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, fmt.Errorf("%s: record %q: %w", e.label, key, driver.ErrTooLarge)
	}
	conflict := fmt.Errorf("%s: record %q: %w", e.label, key, driver.ErrConflict)
	if ifVersion > 0 { // the store may still have one that has expired
		if _, present, _, err := e.record(ctx, key); err != nil {
			return 0, err
		} else if present != ifVersion {
			return present, conflict
		}
	}
	v := Value{Revision: ifVersion}
	onServer := time.Duration(0)
	if value != nil {
		v.Data = append(fmt.Appendf(nil, "%s%d\n", recordMark, keep), value...)
		onServer = keep
	}
	for {
		version, err := e.store.Put(ctx, recordPrefix+encode(key), v, onServer)
		switch {
		case err == nil && value == nil:
			return 0, nil
		case !errors.Is(err, ErrConflict):
			return version, err
		}
		_, present, revision, err := e.record(ctx, key)
		switch {
		case err != nil:
			return 0, err
		case present != ifVersion, revision == v.Revision:
			return present, conflict
		}
		v.Revision = revision // of one that was deleted or has expired
	}
}
