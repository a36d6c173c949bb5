package postgres

import (
	"context"
	"embed"
	"io/fs"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// The statements that differ from the shared ones of the same name.
//
//go:embed sql/*.sql
var files embed.FS

// micros is the server's clock as it is now; now() would be the transaction's
// beginning, and a flight waits for the row first.
const micros = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

func dialect(e *Engine) (sqllock.Dialect, error) {
	statements, err := own()
	if err != nil {
		return sqllock.Dialect{}, err
	}
	statements["front"] = ""     // promote does it
	statements["once_lock"] = "" // who inserts the same key waits
	t := &e.store.tables
	return sqllock.Dialect{
		Name: "postgres",
		Macros: map[string]string{
			"head": t.head, "claim": t.claim, "record": t.record,
			"now": micros, "wall": micros, "mint": micros,
			"max": "greatest", "text": "text",
			"unguarded": "EXISTS (SELECT 1 FROM " + t.head + " g WHERE g.name = :name FOR UPDATE SKIP LOCKED)",
		},
		Statements: statements,
		Mark:       "$",
		Numbered:   true,
		Cast:       cast,
		Store:      e.store,
		Away:       true,
		Fencing:    driver.Durable,
		Push:       true,
		Attend:     e.store.attend,
		Tell:       e.store.tell,
		Hold:       e.store.hold,
		Guards: &sqllock.Guards{
			Query:  queryTx,
			Level:  "SELECT 1 WHERE current_setting('transaction_isolation') <> 'read committed'",
			Stale:  func(err error) bool { return isCode(err, serializationFailed) },
			Undone: func(err error) bool { return isCode(err, deadlockDetected) },
			Busy:   func(err error) bool { return isCode(err, lockNotAvailable) },
		},
	}, nil
}

// own reads the statements of this dialect.
func own() (map[string]string, error) {
	all := map[string]string{}
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		b, err := files.ReadFile(p)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(path.Base(p), ".sql")] = string(b)
	}
	return all, nil
}

// cast tells the server a parameter's type, which it would otherwise take from
// the parameter's first use.
func cast(p sqllock.Param) string {
	switch {
	case p == sqllock.Note || p == sqllock.Value:
		return "::bytea"
	case p.IsText():
		return "::text"
	case p == sqllock.Names || p == sqllock.IDs:
		return "::text[]"
	case p == sqllock.Tries || p == sqllock.Tokens:
		return "::bigint[]"
	}
	return "::bigint"
}

// queryTx runs a statement in a transaction of pgx.
func queryTx(ctx context.Context, tx any, text string, args []any, value *[]byte) (row, known bool, err error) {
	t, ok := tx.(pgx.Tx)
	if !ok {
		return false, false, nil
	}
	r, err := t.Query(ctx, text, args...)
	if err != nil {
		return false, true, err
	}
	defer r.Close()
	if row = r.Next(); row && value != nil {
		if err := r.Scan(value); err != nil {
			return false, true, err
		}
	}
	r.Close()
	return row, true, r.Err()
}
