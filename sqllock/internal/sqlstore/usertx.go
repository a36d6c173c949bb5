package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// A UserTx runs statements in transactions of the user's, and says what a dialect does
// differently there.
type UserTx struct {
	// Text returns a statement as it is sent. Nil: its Text.
	Text func(*Statement) string

	// Query runs a statement in a transaction of a client other than database/sql,
	// reports whether it had a row, and reads that row's one column into value unless
	// value is nil. known is false where tx is not a transaction of that client. Nil:
	// there is no such client.
	Query func(ctx context.Context, tx any, text string, args []any, value *[]byte) (row, known bool, err error)

	// Clock is the clock of expiry and Wall that of records, where they are those of
	// the client's kernel. Nil: the server's clock counts.
	Clock, Wall func() int64

	// IsTimeout recognises the error with which the database ends a wait for a row.
	// Nil: it waits without a limit.
	IsTimeout func(error) bool

	// IsStale recognises the error with which the database refuses a transaction whose
	// snapshot of the row is old. Nil: it has no such error.
	IsStale func(error) bool

	// IsDeadlock recognises the error with which the database rolled a transaction back
	// as a deadlock. Nil: it has no such error.
	IsDeadlock func(error) bool

	// HasSpare reports whether the user's pool has a connection free beside that of the
	// transaction, where the engine's connections come from the same pool. Nil: they do
	// not.
	HasSpare func() bool

	// KeepsSnapshot is a query that has a row if the transaction keeps the snapshot it
	// began with; it is run where the transaction does not see the hold. "": no
	// transaction does.
	KeepsSnapshot string

	// ReadsOldSnapshot says that a transaction may lock the current row and still read
	// a snapshot from before it, so that the snapshot has to be checked as well.
	ReadsOldSnapshot bool
}

// sqlTx is a transaction of database/sql, or a type that embeds it.
type sqlTx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Run runs a statement in tx, reports whether it had a row, and reads that row's one
// column into value unless value is nil.
func (u *UserTx) Run(ctx context.Context, tx any, s *Statement, a *Args, value *[]byte) (row bool, err error) {
	args := make([]any, len(s.Params))
	for i, p := range s.Params {
		args[i] = a.Arg(p)
	}
	text := s.Text
	if u.Text != nil {
		text = u.Text(s)
	}
	row, err = u.query(ctx, tx, text, args, value)
	return row, WithCtxErr(ctx, err)
}

// SnapshotKept reports whether tx keeps the snapshot it began with.
func (u *UserTx) SnapshotKept(ctx context.Context, tx any) (bool, error) {
	if u.KeepsSnapshot == "" {
		return false, nil
	}
	return u.query(ctx, tx, u.KeepsSnapshot, nil, nil)
}

func (u *UserTx) query(ctx context.Context, tx any, text string, args []any, value *[]byte) (row bool, err error) {
	if u.Query != nil {
		if row, known, err := u.Query(ctx, tx, text, args, value); known {
			return row, err
		}
	}
	t, ok := tx.(sqlTx)
	if !ok {
		return false, fmt.Errorf("%w: %T is not a transaction", driver.ErrUnsupported, tx)
	}
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if row = rows.Next(); row && value != nil {
		if err := rows.Scan(value); err != nil {
			return false, err
		}
	}
	for rows.Next() { // some drivers execute a statement that writes only while its rows are read
	}
	return row, rows.Err()
}
