package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Dialect says how a database wants its statements.
type Dialect int

// The dialects.
const (
	SQLite Dialect = iota
	PostgreSQL
	MySQL // and MariaDB
)

// A Tx is what a statement is run with: a *sql.Tx, or a *sql.Conn in a transaction.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A SQL keeps the marks of many resources in one table, one row each.
type SQL struct {
	create, insert, write, read, look string

	// upsert says that write and read make the row where there is none. In MySQL an
	// UPDATE that finds no row locks the gap where it would be; two that did so and
	// then insert it wait for each other, and one is rolled back.
	upsert bool
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// NewSQL returns the fences of a table: a plain name, with a schema or without. It
// panics on any other, which would become part of the statements.
func NewSQL(d Dialect, table string) *SQL {
	if !tableName.MatchString(table) {
		panic(fmt.Sprintf("fence: %q is not a plain name of a table", table))
	}
	fill := strings.NewReplacer("TABLE_", table).Replace
	s := &SQL{
		create: fill("CREATE TABLE IF NOT EXISTS TABLE_ (resource VARCHAR(255) PRIMARY KEY, writer BIGINT NOT NULL, reader BIGINT NOT NULL)"),
		insert: fill("INSERT INTO TABLE_ (resource, writer, reader) VALUES (?, 0, 0) ON CONFLICT DO NOTHING"),
		write:  fill("UPDATE TABLE_ SET writer = ? WHERE resource = ? AND writer <= ? AND reader < ?"),
		read:   fill("UPDATE TABLE_ SET reader = CASE WHEN reader < ? THEN ? ELSE reader END WHERE resource = ? AND writer < ?"),
		look:   fill("SELECT writer, reader FROM TABLE_ WHERE resource = ?"),
	}
	switch d {
	case PostgreSQL:
		for _, q := range []*string{&s.insert, &s.write, &s.read, &s.look} {
			*q = numbered(*q)
		}
	case MySQL:
		s.upsert = true
		s.create = strings.Replace(s.create, "VARCHAR", "VARBINARY", 1) // "a", "A" and "a " are three resources
		s.write = fill("INSERT INTO TABLE_ (resource, writer, reader) VALUES (?, ?, 0) ON DUPLICATE KEY UPDATE writer = CASE WHEN writer <= ? AND reader < ? THEN ? ELSE writer END")
		s.read = fill("INSERT INTO TABLE_ (resource, writer, reader) VALUES (?, 0, ?) ON DUPLICATE KEY UPDATE reader = CASE WHEN writer < ? AND reader < ? THEN ? ELSE reader END")
		s.look = fill("SELECT writer, reader FROM TABLE_ WHERE resource = ? FOR UPDATE") // the present row, not that of the transaction's snapshot
	}
	return s
}

// numbered makes ? the $1, $2 … that PostgreSQL wants.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	for i := range parts[:len(parts)-1] {
		parts[i] += fmt.Sprint("$", i+1)
	}
	return strings.Join(parts, "")
}

// Create makes the table if it is not there.
func (s *SQL) Create(ctx context.Context, tx Tx) error {
	_, err := tx.ExecContext(ctx, s.create)
	return err
}

// Begin raises the mark of a resource to token, or returns ErrStale. Commit it before
// the first read that a later write depends on, or have both in one transaction.
func (s *SQL) Begin(ctx context.Context, tx Tx, resource string, mode Mode, token uint64) error {
	if int64(token) <= 0 {
		return &StaleError{Mode: mode, Token: token}
	}
	if s.upsert {
		return s.put(ctx, tx, resource, mode, token)
	}
	for range 4 { // again after the row was inserted, here or by another
		passed, err := s.raise(ctx, tx, resource, mode, int64(token))
		if err != nil || passed {
			return err
		}
		var now Marks
		err = tx.QueryRowContext(ctx, s.look, resource).Scan(&now.Write, &now.Read)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, s.insert, resource)
		} else if err == nil {
			_, err = now.Admit(mode, token)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("fence: the row of %q comes and goes", resource)
}

// put makes the row or raises the mark in it, and reads what came of that.
func (s *SQL) put(ctx context.Context, tx Tx, resource string, mode Mode, token uint64) error {
	query := s.write
	if mode == Read {
		query = s.read
	}
	t := int64(token)
	if _, err := tx.ExecContext(ctx, query, resource, t, t, t, t); err != nil {
		return err
	}
	var now Marks
	if err := tx.QueryRowContext(ctx, s.look, resource).Scan(&now.Write, &now.Read); err != nil {
		return err
	}
	_, err := now.Admit(mode, token)
	return err
}

func (s *SQL) raise(ctx context.Context, tx Tx, resource string, mode Mode, token int64) (bool, error) {
	query, args := s.write, []any{token, resource, token, token}
	if mode == Read {
		query, args = s.read, []any{token, token, resource, token}
	}
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Check is Begin inside the transaction of an effect: it keeps the resource's row
// locked until the transaction ends, so that no later holder begins before. An
// effect whose Check failed must be rolled back.
func (s *SQL) Check(ctx context.Context, tx Tx, resource string, mode Mode, token uint64) error {
	return s.Begin(ctx, tx, resource, mode, token)
}
