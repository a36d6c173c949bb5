package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
)

// An envelope is what must stand around a flight on connections whose defaults
// would not do.
type envelope struct {
	begin string // "": nothing is needed
	set   []string
}

func (e *envelope) plain() bool { return e.begin == "" }

// envelope looks once at the server and the connections' defaults.
//
// Flights must run at READ COMMITTED: they wait for the name's row first and read
// the line then. And a grant that was told must not be forgotten by a server that
// crashed. Connections may differ, as they do when somebody leaves a setting
// behind in a pooler's: under another level the server refuses a flight rather
// than let it read the past, and it is sent again.
func (s *store) envelope(ctx context.Context) (*envelope, error) {
	if e := s.around.Load(); e != nil {
		return e, nil
	}
	var level, commit, reads string
	var replica bool
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('default_transaction_isolation'),
			current_setting('synchronous_commit'), current_setting('default_transaction_read_only')`,
			pgx.QueryExecModeExec).Scan(&replica, &level, &commit, &reads)
	})
	if err != nil {
		return nil, s.answer(ctx, err)
	}
	if replica {
		return nil, fmt.Errorf("%w: postgres: the server is a read replica, locks need the primary", driver.ErrDenied)
	}
	if reads == "on" { // somebody wants no writes here, and locks are written
		return nil, fmt.Errorf("%w: postgres: default_transaction_read_only is on for these connections, and locks are written: "+
			"set it off for this role or database", driver.ErrDenied)
	}
	e := &envelope{}
	if level != "read committed" || commit == "off" {
		e.begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	}
	if commit == "off" {
		e.set = append(e.set, "SET LOCAL synchronous_commit = on")
	}
	s.around.Store(e)
	return e, nil
}

// ready finds out whether the database can be used: a primary, with tables of
// the version that this program knows.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	var version int
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		err := c.QueryRow(ctx, "SELECT schema FROM "+s.tables.meta+" WHERE one = 1", pgx.QueryExecModeExec).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return s.answer(ctx, err)
	case version != schemaVersion:
		return fmt.Errorf("postgres: the tables %s are of version %d, this program knows version %d: run pawl migrate of the newer one",
			s.tables.shown, version, schemaVersion)
	}
	// Connections for beats are seen to while there is one to be had.
	if err := s.keep(ctx); err != nil {
		return s.answer(ctx, err)
	}
	if _, err = s.envelope(ctx); err == nil {
		s.checked.Store(true)
	}
	return err
}
