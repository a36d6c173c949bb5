package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ownSource is a pool of our own, which finds out by itself whether a pooler is
// in between: statements prepared by name would be met, or missed, on somebody
// else's connection there.
type ownSource struct {
	poolSource
	pooled atomic.Bool
}

var errPooled = errors.New("a pooler is in between")

// sniff has every connection compare the process id that it was greeted with
// and the one that serves it.
func (o *ownSource) sniff(cfg *pgxpool.Config) {
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if o.pooled.Load() {
			c.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return nil
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if o.pooled.Load() {
			return nil
		}
		pid, err := servedBy(ctx, c)
		if err != nil {
			return err
		}
		if pid != c.PgConn().PID() {
			o.pooled.Store(true)
			return errPooled
		}
		return nil
	}
}

func (o *ownSource) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	err := o.poolSource.with(ctx, fn)
	if errors.Is(err, errPooled) { // found out just now, before anything was sent
		err = o.poolSource.with(ctx, fn)
	}
	return err
}

// byTransaction reports whether a pooler gives the server's connection behind c to
// others between two transactions. A LISTEN would stay behind there: the pooler gets
// notices that it has no client for, and PgBouncer 1.18 ends when one comes while a
// call is called off.
//
// It is found out by who serves whom, a few times, since it may be the same by chance.
func (s *store) byTransaction(ctx context.Context, c *pgx.Conn) (bool, error) {
	first, err := servedBy(ctx, c)
	if err != nil || first == c.PgConn().PID() { // no pooler, or one that shows it by not notifying us
		return false, err
	}
	for range 8 {
		again, err := servedBy(ctx, c)
		if err != nil || again != first {
			return true, err
		}
		err = s.with(ctx, s.beatSource(ctx), func(other *pgx.Conn) (err error) {
			again, err = servedBy(ctx, other)
			return err
		})
		if err != nil || again == first {
			return true, err
		}
	}
	return false, nil
}

// servedBy returns the id of the server's process that answers on a connection.
func servedBy(ctx context.Context, c *pgx.Conn) (pid uint32, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}
