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

	// changes says that the database counts the rows that an UPDATE changed and not
	// those that it found, and locked: then none may mean that all is as it should be.
	changes bool
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// NewSQL returns the fences of a table: a plain name, with a schema or without. It
// panics on any other, which would become part of the statements.
func NewSQL(d Dialect, table string) *SQL {
	if !tableName.MatchString(table) {
		panic(fmt.Sprintf("fence: %q is not a plain name of a table", table))
	}
	into, where := "INSERT INTO", " ON CONFLICT DO NOTHING"
	if d == MySQL {
		into, where = "INSERT IGNORE INTO", ""
	}
	fill := strings.NewReplacer("TABLE_", table, "INTO_", into, "_WHERE", where).Replace
	s := &SQL{
		changes: d == MySQL,

		create: fill("CREATE TABLE IF NOT EXISTS TABLE_ (resource VARCHAR(255) PRIMARY KEY, writer BIGINT NOT NULL, reader BIGINT NOT NULL)"),
		insert: fill("INTO_ TABLE_ (resource, writer, reader) VALUES (?, 0, 0)_WHERE"),
		write:  fill("UPDATE TABLE_ SET writer = ? WHERE resource = ? AND writer <= ? AND reader < ?"),
		read:   fill("UPDATE TABLE_ SET reader = CASE WHEN reader < ? THEN ? ELSE reader END WHERE resource = ? AND writer < ?"),
		look:   fill("SELECT writer, reader FROM TABLE_ WHERE resource = ?"),
	}
	if d == PostgreSQL {
		for _, q := range []*string{&s.insert, &s.write, &s.read, &s.look} {
			*q = numbered(*q)
		}
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
	for range 4 { // again when the row was not there, and when it came in between
		passed, err := s.raise(ctx, tx, resource, mode, int64(token))
		if err != nil || passed {
			return err
		}
		var now Marks
		err = tx.QueryRowContext(ctx, s.look, resource).Scan(&now.Write, &now.Read)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, s.insert, resource)
		} else if err == nil {
			var raised Marks
			if raised, err = now.Admit(mode, token); err == nil && raised == now && s.changes {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("fence: the row of %q comes and goes", resource)
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
