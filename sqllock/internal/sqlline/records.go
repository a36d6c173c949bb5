package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) (value []byte, version uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	var n int64
	err = e.readBounded(ctx, e.q.LoadRecord, e.named(key), func(r sqlstore.Row) error { return r.Scan(&n, &value) })
	if err != nil {
		return nil, 0, err
	}
	return value, uint64(n), nil
}

// Store writes a record if its version is still ifVersion. It is on disk when Store
// returns.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	a := e.named(key)
	a.Value = value
	a.Num[sqlstore.Version] = int64(ifVersion)
	if keep > 0 {
		a.SetDuration(sqlstore.Keep, max(keep, time.Microsecond)) // 0 would keep it for ever
	}
	write := e.q.StoreRecord
	switch {
	case value == nil:
		write = e.q.DeleteRecord
	case ifVersion == 0:
		write = e.q.CreateRecord
	}
	var written, current int64
	b := sqlstore.Batch{Durable: true, Steps: []sqlstore.Step{
		{Statement: write, Args: a, Row: func(r sqlstore.Row) error { return r.Scan(&written) }},
		{Statement: e.q.RecordVersion, Args: a, Row: func(r sqlstore.Row) error { return r.Scan(&current) }},
	}}
	if err := e.d.Store.Run(ctx, &b); err != nil {
		return 0, err
	}
	switch {
	case value == nil && (written != 0 || (current == 0 && ifVersion == 0)):
		return 0, nil
	case written == 0:
		return uint64(current), driver.ErrConflict
	}
	e.sweepSoon()
	return uint64(written), nil
}
