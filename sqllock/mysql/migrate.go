package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// migrate makes the tables where they are missing.
func (s *store) migrate(ctx context.Context) error {
	if _, err := s.server(ctx); err != nil {
		return err
	}
	err := s.from.with(ctx, &sqlstore.Batch{}, func(c *sql.Conn) error {
		// One by one: each ends a transaction anyway, and the server serializes concurrent
		// statements that make the same table.
		for _, text := range splitStatements(s.qualified(s.tables.expand(schemaSQL + "\n" + fenceRowSQL))) {
			if _, err := c.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.withCtxErr(ctx, err)
	}
	return s.ready(ctx)
}

// ready checks once whether the database can be used: a server that accepts writes, with
// tables of the version that this program knows.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if _, err := s.server(ctx); err != nil {
		return err
	}
	var version int
	// On the connection for beats, so that it is taken before the user's work has them all.
	err := s.from.with(ctx, &sqlstore.Batch{Beat: true}, func(c *sql.Conn) error {
		err := c.QueryRowContext(ctx, s.qualified(s.tables.expand("SELECT version FROM {meta} WHERE one = 1"))).Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil && version == schemaVersion {
			s.makeFenceRow(ctx, c)
		}
		return err
	})
	switch {
	case err != nil:
		return s.withCtxErr(ctx, err)
	case version != schemaVersion:
		return fmt.Errorf("mysql: the tables %s are of version %d, this program knows version %d: run pawl migrate of the newer one",
			s.tables.shown, version, schemaVersion)
	}
	s.checked.Store(true)
	return nil
}

// makeFenceRow makes the row that records the tokens of deleted head rows, in tables of
// an older program, which had none. Without it, statements that make a head row would
// lock the gap where it belongs, and block each other. A user without the right to write
// meets that at the first lock.
func (s *store) makeFenceRow(ctx context.Context, c *sql.Conn) {
	var one int
	if err := c.QueryRowContext(ctx, s.qualified(s.tables.expand("SELECT 1 FROM {head} WHERE name = ''"))).Scan(&one); errors.Is(err, sql.ErrNoRows) {
		_, _ = c.ExecContext(ctx, s.qualified(s.tables.expand(fenceRowSQL)))
	}
}
