package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	r, err := e.fetchRecord(ctx, key)
	if err != nil || r.version() == 0 {
		return nil, 0, err
	}
	return r.value, r.version(), nil
}

// Store writes a record if its version is still ifVersion.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	for {
		r, err := e.fetchRecord(ctx, key)
		if err != nil {
			return 0, err
		}
		if r.version() != ifVersion {
			return r.version(), driver.ErrConflict
		}
		version, err := e.writeRecord(ctx, r, value, keep)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty):
			continue // it was changed in between: the next read shows how
		case err == nil && keep > 0:
			e.cleanRecords()
		}
		return version, err
	}
}
