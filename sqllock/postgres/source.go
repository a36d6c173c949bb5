package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// beatConns is how many connections are kept for beats. With three, neither a beat that
// is stuck on a dead connection nor one that waits for a row delays the next.
const beatConns = 3

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that no other caller uses meanwhile. A connection
	// that fn left closed, or in a transaction, is not used again.
	with(ctx context.Context, fn func(*pgx.Conn) error) error

	// keep returns a source of connections for beats, so that they do not queue behind
	// the user's own work. They are configured as all of the source are. It does not
	// connect.
	keep() (source, error)

	// conns is how many connections there may be; 0: any number.
	conns() int

	// config returns the configuration of a connection to the same server.
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
		return &sqlstore.ConnectError{Err: err}
	}
	defer c.Release()
	defer closeCancelled(ctx, c.Conn())
	if err := checkEncoding(c.Conn()); err != nil {
		return err
	}
	return fn(c.Conn())
}

// checkEncoding refuses a connection on which names would not arrive as they are: the
// server converts them from client_encoding, so that the same name would be another lock.
// It needs no round trip, since the server reports every change of the setting, and a
// pooler what its client asked for, as it was spelled.
func checkEncoding(c *pgx.Conn) error {
	if has := c.PgConn().ParameterStatus("client_encoding"); !isUTF8(has) && !c.IsClosed() {
		return fmt.Errorf("%w: postgres: client_encoding of the connection is %q and must be UTF8, since in another encoding the same name would be another lock: "+
			"configure it for the pool, and change it nowhere else", driver.ErrUnsupported, has)
	}
	return nil
}

// isUTF8 reports whether an encoding is UTF-8, in the spellings that the server knows.
func isUTF8(encoding string) bool {
	return slices.Contains([]string{"utf8", "unicode"}, strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(encoding)))
}

// keep makes a pool of our own, with all hooks of the user's.
func (p *poolSource) keep() (source, error) {
	cfg := p.pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = beatConns, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
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

func (p *poolSource) conns() int { return int(p.pool.Config().MaxConns) }

func (p *poolSource) close() {
	if p.own {
		p.pool.Close()
	}
}

// closeCancelled closes a connection whose call was cancelled, also if the call
// succeeded all the same. pgx cancels by a deadline on the socket; on a busy machine its
// background reader may meet that deadline, and the timeout is then reported to the next
// user of the connection.
func closeCancelled(ctx context.Context, c *pgx.Conn) {
	if ctx.Err() != nil && !c.IsClosed() {
		closeConn(c)
	}
}

func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
