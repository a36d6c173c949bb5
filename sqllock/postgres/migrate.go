package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// migrate makes the tables where they are missing.
func (s *store) migrate(ctx context.Context) error {
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		// Without the advisory lock, two concurrent CREATE TABLE of one table conflict in
		// the catalogue.
		_, err := c.Exec(ctx, fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock(%d);\n%s\nCOMMIT",
			s.tables.lockNumber(), s.tables.schema()), pgx.QueryExecModeSimpleProtocol)
		if err != nil && !c.IsClosed() {
			_, _ = c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // if that fails too, the connection is not used again
		}
		return err
	})
	if err != nil {
		return s.classify(err)
	}
	return s.ready(ctx)
}

// ready checks once whether the database can be used: a primary, with tables of the
// version that this program knows.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	read, err := s.settings(ctx)
	if err != nil {
		return err
	}
	var version int
	// On a connection for beats, so that it is taken before the user's work has them all.
	err = s.onBeats(ctx, func(c *pgx.Conn) error {
		err := c.QueryRow(ctx, "SELECT schema FROM "+strings.ReplaceAll(s.tables.qualified(s.tables.meta), schemaMark, read.schema)+" WHERE one = 1", pgx.QueryExecModeExec).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return s.withCtxErr(ctx, err)
	case version != schemaVersion:
		return fmt.Errorf("postgres: the tables %s are of version %d, this program knows version %d: run pawl migrate of the newer one",
			s.tables.shown, version, schemaVersion)
	}
	s.checked.Store(true)
	return nil
}
