package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ownSource is a pool of our own, which detects a pooler between it and the server:
// behind one, a statement prepared by name may or may not exist on the server's
// connection.
type ownSource struct {
	poolSource
	pooled atomic.Bool
}

var errPooled = errors.New("a pooler is in between")

// detectPooler makes every new connection compare the process id of the server's
// greeting with that of the process that answers.
func (o *ownSource) detectPooler(cfg *pgxpool.Config) {
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
		pid, err := serverPID(ctx, c)
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
	if errors.Is(err, errPooled) { // detected just now, before anything was sent
		err = o.poolSource.with(ctx, fn)
	}
	return err
}

// isTransactionPooled reports whether a pooler gives the server's connection behind c to
// other clients between two transactions. A LISTEN would stay behind there: the pooler
// gets notices that it has no client for, and PgBouncer 1.18 crashes when one comes while
// a query is cancelled.
//
// It compares the processes that serve c and another connection, several times, since
// they may be the same by chance.
func (s *store) isTransactionPooled(ctx context.Context, c *pgx.Conn) (bool, error) {
	first, err := serverPID(ctx, c)
	if err != nil || first == c.PgConn().PID() { // no pooler, or one whose notices do not arrive
		return false, err
	}
	for range 8 {
		again, err := serverPID(ctx, c)
		if err != nil || again != first {
			return true, err
		}
		err = s.with(ctx, s.onBeats, func(other *pgx.Conn) (err error) {
			again, err = serverPID(ctx, other)
			return err
		})
		if err != nil || again == first {
			return true, err
		}
	}
	return false, nil
}

// pooler reports whether a pooler is in between, and whether it assigns connections per
// transaction.
func (s *store) pooler(ctx context.Context) (found, perTransaction bool, err error) {
	err = s.from.with(ctx, func(c *pgx.Conn) error {
		pid, err := serverPID(ctx, c)
		if err != nil || pid == c.PgConn().PID() {
			return err
		}
		found = true
		perTransaction, err = s.isTransactionPooled(ctx, c)
		return err
	})
	return found, perTransaction, s.withCtxErr(ctx, err)
}

// serverPID returns the id of the server's process that answers on a connection.
func serverPID(ctx context.Context, c *pgx.Conn) (pid uint32, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}
