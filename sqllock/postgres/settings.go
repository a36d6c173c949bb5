package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
)

// envelope returns the statements that have to go before a batch on connections whose
// defaults would not do: the beginning of a transaction. It reads the settings of server
// and connections once.
//
// Batches must run at READ COMMITTED: they wait for the head row first and read the line
// then. And a grant must survive a crash of the server. Connections may differ, as they
// do when a setting was left behind in a pooler's connection: under another level the
// server refuses a batch instead of letting it read an old snapshot, and it is sent
// again.
func (s *store) envelope(ctx context.Context) ([]string, error) {
	if before := s.before.Load(); before != nil {
		return *before, nil
	}
	var level, commit, readOnly string
	var replica bool
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('default_transaction_isolation'),
			current_setting('synchronous_commit'), current_setting('default_transaction_read_only')`,
			pgx.QueryExecModeExec).Scan(&replica, &level, &commit, &readOnly)
	})
	if err != nil {
		return nil, s.withCtxErr(ctx, err)
	}
	if replica {
		return nil, fmt.Errorf("%w: postgres: the server is a read replica, locks need the primary", driver.ErrDenied)
	}
	if readOnly == "on" {
		return nil, fmt.Errorf("%w: postgres: default_transaction_read_only is on for these connections, and locks are written: "+
			"set it off for this role or database", driver.ErrDenied)
	}
	var before []string
	if level != "read committed" || commit == "off" {
		before = append(before, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	}
	if commit == "off" {
		before = append(before, "SET LOCAL synchronous_commit = on")
	}
	s.before.Store(&before)
	return before, nil
}
