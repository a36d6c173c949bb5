package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl/driver"
)

// dbSource is a *sql.DB on pgx. Steps that travel together need the connection
// beneath it.
type dbSource struct{ db *sql.DB }

var (
	errNotPGX = fmt.Errorf("%w: the *sql.DB is not of pgx's stdlib driver, and on another the steps of a flight cannot travel together",
		driver.ErrUnsupported)
	errOneConn = fmt.Errorf("%w: postgres: the *sql.DB is limited to one connection, and one is kept for beats: allow at least two",
		driver.ErrUnsupported)
)

func (d *dbSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := d.db.Conn(ctx)
	if err != nil {
		return &connectError{err}
	}
	defer c.Close()
	_, err = on(ctx, c, fn)
	return err
}

// on runs fn on the connection beneath c, and reports whether c can be used again.
func on(ctx context.Context, c *sql.Conn, fn func(*pgx.Conn) error) (usable bool, err error) {
	var failed error // kept apart: Raw would take some errors for its own
	err = c.Raw(func(dc any) error {
		conn, err := beneath(dc)
		if err != nil {
			failed = err
			return nil
		}
		failed = fn(conn)
		spoilt(ctx, conn)
		if conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
			return sqldriver.ErrBadConn
		}
		return nil
	})
	if failed != nil || errors.Is(err, sqldriver.ErrBadConn) {
		return err == nil, failed
	}
	return err == nil, err
}

// beneath finds pgx's connection, also under a driver that wraps another and
// shows it by a method Raw, as those that trace do.
func beneath(dc any) (*pgx.Conn, error) {
	for {
		switch c := dc.(type) {
		case *stdlib.Conn:
			return c.Conn(), nil
		case interface{ Raw() sqldriver.Conn }:
			dc = c.Raw()
		default:
			return nil, errNotPGX
		}
	}
}

func (d *dbSource) config(ctx context.Context) (*pgx.ConnConfig, error) { return configOf(ctx, d) }

// configOf is what a connection of a source was made with.
func configOf(ctx context.Context, from source) (own *pgx.ConnConfig, err error) {
	err = from.with(ctx, func(c *pgx.Conn) error {
		own = c.Config()
		return nil
	})
	return own, err
}

func (*dbSource) close() {}

// keep takes a connection of the user's while there is one to be had. One that we
// made by ourselves would be without what the user's hooks do on each, and on
// another search path are other tables.
func (d *dbSource) keep(ctx context.Context) (source, error) {
	if d.db.Stats().MaxOpenConnections == 1 {
		return nil, errOneConn
	}
	k := &keptSource{dbSource: d}
	return k, k.with(ctx, func(*pgx.Conn) error { return nil })
}

// keptSource is one connection of the user's pool that is kept, and others of it
// while that one is in use.
type keptSource struct {
	*dbSource

	mu   sync.Mutex // held while the kept connection is in use
	kept *sql.Conn  // nil until it is first needed, and after it broke
}

func (k *keptSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	if !k.mu.TryLock() {
		return k.dbSource.with(ctx, fn)
	}
	defer k.mu.Unlock()
	if k.kept == nil {
		c, err := k.db.Conn(ctx)
		if err != nil {
			return &connectError{err}
		}
		k.kept = c
	}
	usable, err := on(ctx, k.kept, fn)
	if !usable {
		_ = k.kept.Close() // only drops it
		k.kept = nil
	}
	return err
}

func (k *keptSource) config(ctx context.Context) (*pgx.ConnConfig, error) { return configOf(ctx, k) }

func (k *keptSource) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept != nil {
		_ = k.kept.Close() // only gives it back
		k.kept = nil
	}
}
