package sqlbench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/bench/compare"
)

// sessionLocks are the server's own locks, which last as long as a connection:
// PostgreSQL's advisory locks, MySQL's and MariaDB's GET_LOCK. They write nothing,
// do not survive a restart and have no token; each needs a connection while it is
// held or waited for.
type sessionLocks struct {
	db           *sql.DB
	lock, unlock string // with the name as argument; both return 1
}

func (b base) openSessionLocks(context.Context) (compare.Locker, error) {
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(crowd)
	return &sessionLocks{db, b.lock, b.unlock}, nil
}

func (s *sessionLocks) Close() error { return s.db.Close() }

func (s *sessionLocks) Lock(ctx context.Context, name string) (func() error, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := one(ctx, conn, s.lock, name); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(one(ctx, conn, s.unlock, name), conn.Close())
	}, nil
}

func one(ctx context.Context, conn *sql.Conn, query, name string) error {
	var answer sql.NullInt64
	err := conn.QueryRowContext(ctx, query, name).Scan(&answer)
	if err == nil && answer.Int64 != 1 {
		err = fmt.Errorf("%s answered %v", query, answer)
	}
	return err
}
