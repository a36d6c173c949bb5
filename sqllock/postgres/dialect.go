package postgres

import (
	"context"
	"embed"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// The statements that differ from the shared ones of the same name.
//
//go:embed sql/*.sql
var files embed.FS

// micros is the server's clock at this moment; now() would be the beginning of the
// transaction, and a batch waits for the head row first.
const micros = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

func dialect(s *store) sqlline.Dialect {
	t := &s.tables
	head := t.qualified(t.head)
	return sqlline.Dialect{
		Name: "postgres",
		Syntax: sqlstore.Syntax{
			Macros: map[string]string{
				"head": head, "claim": t.qualified(t.claim), "record": t.qualified(t.record),
				"now": micros, "wall": micros, "mint": micros,
				"max":       "greatest",
				"durable":   durableMark,
				"unguarded": "EXISTS (SELECT 1 FROM " + head + " g WHERE g.name = :name FOR UPDATE SKIP LOCKED)",
			},
			Placeholder: "$",
			Numbered:    true,
			Cast:        cast,
		},
		Files: files,
		Without: []string{
			"lock_front",                         // promote does it
			"once_lock",                          // inserting the same key waits
			"delete_head", "delete_ended_record", // delete_heads and delete_ended_records do it
		},
		Store:   s,
		Ready:   s.ready,
		Remote:  true,
		Conns:   s.from.conns,
		Listen:  s.listen,
		Notify:  s.notifyClaims,
		Owner:   s.owner,
		OneConn: s.oneConn,
		UserTx: &sqlstore.UserTx{
			Text:          s.text,
			Query:         queryTx,
			KeepsSnapshot: "SELECT 1 WHERE current_setting('transaction_isolation') <> 'read committed'",
			IsStale:       func(err error) bool { return isCode(err, serializationFailed) },
			IsDeadlock:    func(err error) bool { return isCode(err, deadlockDetected) },
			IsTimeout:     func(err error) bool { return isCode(err, lockNotAvailable) },
		},
		Examined: examined(s),
	}
}

func examined(s *store) *sqlstore.Examined {
	t := &s.tables
	x := &sqlstore.Examined{
		Meta: t.meta, Head: t.head, Claim: t.claim, Record: t.record, Version: schemaVersion,
		Further: beatConns + 1, // one listens
		With:    s.examine, Pooler: s.pooler,
	}
	if own, ok := s.from.(*ownSource); ok {
		x.Conns = int(own.pool.Config().MaxConns)
	}
	return x
}

// cast tells the server a parameter's type, which it would otherwise infer from the
// parameter's first use.
func cast(p sqlstore.Param) string {
	switch {
	case p == sqlstore.Note || p == sqlstore.Value:
		return "::bytea"
	case p.IsText():
		return "::text"
	case p == sqlstore.Names || p == sqlstore.IDs:
		return "::text[]"
	case p == sqlstore.Tries || p == sqlstore.Tokens:
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
