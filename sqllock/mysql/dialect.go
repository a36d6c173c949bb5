package mysql

import (
	"context"
	"embed"

	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// The statements that differ from the shared ones of the same name.
//
//go:embed sql/*.sql
var files embed.FS

// micros is the server's clock at the beginning of the statement. A statement that waits
// for its row then compares with an earlier moment, which is safe: a hold that expired
// meanwhile is not taken over yet, and what is promised is counted from before the
// statement was sent. It is UTC, so that it depends on no time zone, and a replica that
// repeats the statement computes the same.
const micros = "TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(6))"

// primary is 0, or fails on a read-only server. A server that was demoted may accept
// writes of this user all the same, if the user is exempt from read_only, and the new
// primary does not know what it grants then. Every statement that grants or prolongs
// contains it, so that no moment passes between the check and the write. Its error, of a
// subquery with two rows, occurs nowhere else here. Newer servers return the variable as
// a word.
const primary = "(SELECT 0 UNION ALL SELECT 0 FROM dual WHERE CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF'))"

// update and remove begin a statement that changes rows it found by a join. Where
// sql_safe_updates is on, MariaDB refuses such a statement. Each server has its own
// syntax for an exception, which is a comment to the other. The session's setting stays.
const (
	update = "/*M! SET STATEMENT sql_safe_updates = 0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates = 0) */"
	remove = "/*M! SET STATEMENT sql_safe_updates = 0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates = 0) */"
)

// select20ms begins a SELECT that fails after 20 ms, as when it waits for a row; the
// servers' own limit for lock waits is in seconds.
const select20ms = "/*M! SET STATEMENT max_statement_time = 0.02 FOR */ SELECT /*+ MAX_EXECUTION_TIME(20) */"

func dialect(s *store) sqlline.Dialect {
	t := &s.tables
	return sqlline.Dialect{
		Name: "mysql",
		Syntax: sqlstore.Syntax{
			Macros: map[string]string{
				"head": t.inStatement(t.head), "claim": t.inStatement(t.claim), "record": t.inStatement(t.record),
				"now": micros, "wall": micros, "mint": "(" + micros + " + " + primary + ")", "primary": primary,
				"update": update, "delete": remove, "select_20ms": select20ms,
				"max":       "GREATEST",
				"unguarded": "1 = 1", // a guard locks the row that lock_head waits for
			},
			Placeholder: "?",
		},
		Files:        files,
		Without:      []string{"delete_head", "delete_ended_record"}, // delete_heads and delete_ended_records do it
		SeparateHead: true,
		Store:        s,
		Ready:        s.ready,
		Remote:       true,
		Conns:        s.from.conns,
		EachStatement: func() bool {
			k := s.known.Load()
			return k != nil && !k.multi
		},
		Listen: func(ctx context.Context, w sqlline.Waiters) { w.PollUntil(ctx) },
		UserTx: &sqlstore.UserTx{
			Text:             func(q *sqlstore.Statement) string { return s.qualified(q.Text) },
			IsStale:          func(err error) bool { return isCode(err, changedSinceRead) },
			IsTimeout:        func(err error) bool { return isCode(err, lockWaitTimeout) },
			IsDeadlock:       func(err error) bool { return isCode(err, deadlock) },
			HasSpare:         s.from.hasSpare(),
			ReadsOldSnapshot: true,
		},
		Examined: examined(s),
	}
}

func examined(s *store) *sqlstore.Examined {
	t := &s.tables
	x := &sqlstore.Examined{
		Meta: t.meta, Head: t.head, Claim: t.claim, Record: t.record, Version: schemaVersion,
		Further: beatConns, MultiPrimary: s.multiPrimary,
		With: s.examine,
	}
	if own, ok := s.from.(*ownSource); ok {
		x.Conns = own.db.Stats().MaxOpenConnections
	}
	return x
}
