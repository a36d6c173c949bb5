package mysql

import (
	"context"
	"embed"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// The statements that differ from the shared ones of the same name.
//
//go:embed sql/*.sql
var files embed.FS

// micros is the server's clock when the statement began. A statement that waits
// for its row then judges by a moment that has passed, which is on the safe side:
// a hold that has expired since is not yet taken over, and what is promised is
// counted from before the statement was sent. It is of UTC, so that no time zone
// and no summer time is in it, and a replica that repeats the statement gets the
// same.
const micros = "TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(6))"

// primary is 0, or fails where the server takes no writes: one that was demoted may
// take them from this user all the same, who may pass read_only by, and what it grants
// then the new primary does not know. It is in every statement that grants or
// prolongs, so that no moment is between the question and what follows from it. Its
// error, of a subquery with two rows, is none that anything else here meets. In newer
// servers the variable is a word.
const primary = "(SELECT 0 UNION ALL SELECT 0 FROM dual WHERE CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF'))"

// update and remove begin a statement that changes rows it found by others. Where
// sql_safe_updates is on, MariaDB refuses such a one for the rows it reads, which
// are few: each server is told in its own way, which is a comment to the other, that
// this statement may. The session stays as it is.
const (
	update = "/*M! SET STATEMENT sql_safe_updates = 0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates = 0) */"
	remove = "/*M! SET STATEMENT sql_safe_updates = 0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates = 0) */"
)

// briefly begins a SELECT that fails where it takes longer than 20 ms, as one that
// waits for a row; the servers' own limit for that counts in seconds.
const briefly = "/*M! SET STATEMENT max_statement_time = 0.02 FOR */ SELECT /*+ MAX_EXECUTION_TIME(20) */"

func dialect(e *Engine) (sqllock.Dialect, error) {
	statements, err := dialectStatements()
	if err != nil {
		return sqllock.Dialect{}, err
	}
	t := &e.store.tables
	return sqllock.Dialect{
		Name: "mysql",
		Macros: map[string]string{
			"head": t.head, "claim": t.claim, "record": t.record,
			"now": micros, "wall": micros, "mint": "(" + micros + " + " + primary + ")", "primary": primary, "update": update, "delete": remove, "briefly": briefly,
			"max": "GREATEST", "text": "BINARY",
			"unguarded": "1 = 1", // a guard holds the row that lock waits for
		},
		Statements: statements,
		Mark:       "?",
		HeadApart:  true,
		Store:      e.store,
		Away:       true,
		Fencing:    driver.Durable,
		Attend:     attend,
		Guards: &sqllock.Guards{
			Stale:  func(err error) bool { return isCode(err, changedSinceRead) },
			Busy:   func(err error) bool { return isCode(err, lockWaitTimeout) },
			Undone: func(err error) bool { return isCode(err, deadlock) },
			Spare:  e.store.from.spare(),
			Seen:   true,
		},
	}, nil
}

// dialectStatements reads the statements of this dialect.
func dialectStatements() (map[string]string, error) {
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

// attend looks for turns while somebody waits: one look for all who wait in this
// process for the same name.
func attend(ctx context.Context, w sqllock.Waiters) {
	for w.Wanted(ctx) == nil {
		stirred := w.Stirred()
		next, _ := w.Poll(ctx, true) // an error is met again soon enough
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-stirred:
		case <-ctx.Done():
		}
		t.Stop()
	}
}
