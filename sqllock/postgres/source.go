package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that is fn's alone meanwhile. A connection
	// that fn left closed, or in a transaction, is not used again.
	with(ctx context.Context, fn func(*pgx.Conn) error) error

	// keep returns where connections for beats come from, so that they do not wait
	// behind the user's own work. They are made as all of the source are.
	keep(ctx context.Context) (source, error)

	// config is that of a connection to the same server by itself.
	config(ctx context.Context) (*pgx.ConnConfig, error)

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

// keep makes a pool of our own, with all hooks of the user's. It does not connect.
func (p *poolSource) keep(ctx context.Context) (source, error) {
	cfg := p.pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = beatConns, 0, 0
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, err
	}
	return &poolSource{pool: pool, own: true}, nil
}

func (p *poolSource) config(ctx context.Context) (*pgx.ConnConfig, error) {
	cfg := p.pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	return cfg.ConnConfig, nil
}

func (p *poolSource) close() {
	if p.own {
		p.pool.Close()
	}
}

// A connectError says that no connection was had, so that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }
