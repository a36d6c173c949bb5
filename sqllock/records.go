package sqllock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Load returns a record's value and version.
func (e *Engine) Load(ctx context.Context, key string) (value []byte, version uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	a := &Args{}
	a.text[Name] = e.key(key)
	var n int64
	err = e.ask(ctx, &Step{Query: e.q.load, Args: a, Row: func(r Row) error { return r.Scan(&n, &value) }})
	if err != nil {
		return nil, 0, err
	}
	return value, uint64(n), nil
}

// Store writes a record if its version is still ifVersion. It has reached the
// disk when Store returns.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	a := &Args{blob: value}
	a.text[Name] = e.key(key)
	a.set(Version, int64(ifVersion))
	if keep > 0 {
		a.setDuration(Keep, max(keep, time.Microsecond)) // 0 would keep it for ever
	}
	write := e.q.store
	switch {
	case value == nil:
		write = e.q.erase
	case ifVersion == 0:
		write = e.q.create
	}
	var written, stands int64
	f := Flight{Durable: true, Steps: []Step{
		{Query: write, Args: a, Row: func(r Row) error { return r.Scan(&written) }},
		{Query: e.q.version, Args: a, Row: func(r Row) error { return r.Scan(&stands) }},
	}}
	if err := e.d.Store.Run(ctx, &f); err != nil {
		return 0, err
	}
	switch {
	case value == nil && (written != 0 || (stands == 0 && ifVersion == 0)):
		return 0, nil
	case written == 0:
		return uint64(stands), driver.ErrConflict
	}
	e.sweepSome(ctx)
	return uint64(written), nil
}
