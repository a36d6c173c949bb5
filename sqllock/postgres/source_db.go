package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// dbSource is a *sql.DB on pgx. A batch needs the pgx connection beneath it.
type dbSource struct{ db *sql.DB }

var errNotPGX = fmt.Errorf("%w: the *sql.DB is not of pgx's stdlib driver, and another cannot send the statements of a batch together",
	driver.ErrUnsupported)

func (d *dbSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := d.db.Conn(ctx)
	if err != nil {
		return &sqlstore.ConnectError{Err: err}
	}
	defer c.Close()
	_, err = onConn(ctx, c, fn)
	return err
}

// onConn runs fn on the connection beneath c, and reports whether c can be used again.
func onConn(ctx context.Context, c *sql.Conn, fn func(*pgx.Conn) error) (usable bool, err error) {
	var failed error // not returned from Raw, which gives some errors a meaning of its own
	err = c.Raw(func(dc any) error {
		conn, err := pgxConn(dc)
		if err == nil {
			err = checkEncoding(conn)
		}
		if err != nil {
			failed = err
			return nil
		}
		failed = fn(conn)
		closeCancelled(ctx, conn)
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

// pgxConn returns pgx's connection, also beneath a driver that wraps another and exposes
// it by a method Raw, as tracing drivers do.
func pgxConn(dc any) (*pgx.Conn, error) {
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

// configOf returns the configuration of a connection of a source.
func configOf(ctx context.Context, from source) (own *pgx.ConnConfig, err error) {
	err = from.with(ctx, func(c *pgx.Conn) error {
		own = c.Config()
		return nil
	})
	return own, err
}

func (d *dbSource) conns() int { return max(d.db.Stats().MaxOpenConnections-1, 0) } // one is for beats

func (*dbSource) close() {}

func (d *dbSource) keep() (source, error) {
	return &keptSource{d, sqlstore.NewKeptConn(d.db)}, nil
}

// keptSource is one connection of the user's pool that is kept, and other connections of
// the pool while that one is in use. The user's hooks have run on them: without these
// they might have another search path, and so other tables.
type keptSource struct {
	*dbSource
	conn *sqlstore.KeptConn
}

func (k *keptSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	return k.conn.With(ctx, func(c *sql.Conn) (usable bool, err error) { return onConn(ctx, c, fn) })
}

func (k *keptSource) config(ctx context.Context) (*pgx.ConnConfig, error) { return configOf(ctx, k) }
func (k *keptSource) close()                                              { k.conn.Close() }
