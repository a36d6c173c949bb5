package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl/driver"
)

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that is fn's alone meanwhile. A connection
	// that fn left closed, or in a transaction, is not used again.
	with(ctx context.Context, fn func(*pgx.Conn) error) error

	// config is that of a pool for connections of our own to the same server.
	config(ctx context.Context) (*pgxpool.Config, error)

	close()
}

// poolSource is a pool: the user's, or one of our own.
type poolSource struct {
	pool *pgxpool.Pool
	own  bool
}

func (p *poolSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := p.pool.Acquire(ctx)
	if err != nil {
		return &connectError{err}
	}
	defer c.Release()
	defer spoilt(ctx, c.Conn())
	return fn(c.Conn())
}

// spoilt closes a connection whose call was called off, also where it ended well
// all the same. pgx calls off by a deadline on the socket, and where the machine is
// busy it may have a read of its own under way there: the timeout that this one
// meets is kept, and told to whoever uses the connection next.
func spoilt(ctx context.Context, c *pgx.Conn) {
	if ctx.Err() != nil && !c.IsClosed() {
		end(c)
	}
}

func (p *poolSource) config(context.Context) (*pgxpool.Config, error) { return p.pool.Config(), nil }

func (p *poolSource) close() {
	if p.own {
		p.pool.Close()
	}
}

// dbSource is a *sql.DB on pgx. Steps that travel together need the connection
// beneath it.
type dbSource struct{ db *sql.DB }

var errNotPGX = fmt.Errorf("%w: the *sql.DB is not of pgx's stdlib driver, and on another the steps of a flight cannot travel together",
	driver.ErrUnsupported)

func (d *dbSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := d.db.Conn(ctx)
	if err != nil {
		return &connectError{err}
	}
	defer c.Close()
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
		return failed
	}
	return err
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

func (d *dbSource) config(ctx context.Context) (*pgxpool.Config, error) {
	var own *pgx.ConnConfig
	err := d.with(ctx, func(c *pgx.Conn) error {
		own = c.Config()
		return nil
	})
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig("host=localhost") // only for its defaults
	if err != nil {
		return nil, err
	}
	own.OnNotification = nil // that of the connection it was read from
	cfg.ConnConfig = own
	return cfg, nil
}

func (*dbSource) close() {}

// A connectError says that no connection was had, so that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }
