package sqlite

import (
	"context"
	"embed"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"

	"github.com/pawl-go/pawl/driverkit"
)

//go:embed sql/*.sql
var files embed.FS

// dialect is that of an engine that writes.
func dialect(s *store, l *liveness) sqlline.Dialect {
	d := commonDialect(l, s.writer.clock)
	d.Store, d.Owner = s, l.id
	if l.turns != nil { // by its socket others see that a process tells
		d.Tell = l.tell
	}
	d.Listen = func(ctx context.Context, w sqlline.Waiters) { (&listener{store: s, liveness: l, waiters: w}).run(ctx) }
	return d
}

// readOnlyDialect is that of an engine that only reads, through views.
func readOnlyDialect(r *readOnly) sqlline.Dialect {
	d := commonDialect(r.liveness, r.clock)
	d.Store, d.Listen = r, r.listen
	d.Macros["head"], d.Macros["claim"] = "pawl_head_seen", "pawl_claim_seen"
	return d
}

// commonDialect uses every shared statement as it is, but locks no rows: transactions
// that write exclude each other. The clock of expiry is that of the client's kernel, so
// it is a parameter.
func commonDialect(l *liveness, ck clock) sqlline.Dialect {
	return sqlline.Dialect{
		Name:  "sqlite",
		Files: files,
		Syntax: sqlstore.Syntax{
			Macros: map[string]string{
				"head": "pawl_head", "claim": "pawl_claim", "record": "pawl_record",
				"now": ":now", "wall": ":wall",
				"mint":      "max(coalesce((SELECT fence FROM pawl_head WHERE name = ''), 0) + 1, :wall)",
				"max":       "max",
				"unguarded": "1 = 1", // no other transaction writes while a guarded one is open
			},
			Placeholder: "?",
			Numbered:    true,
		},
		Without:  []string{"lock_head", "lock_front", "require_claim"},
		UserTx:   &sqlstore.UserTx{Clock: ck.now, Wall: ck.wall},
		Liveness: l,
	}
}

// readOnlyPoll is how often an engine that only reads polls for its watchers.
const readOnlyPoll = 50 * time.Millisecond

func (r *readOnly) listen(ctx context.Context, w sqlline.Waiters) {
	for w.WaitForAny(ctx) == nil {
		_ = w.WakeChanged(ctx) // repeated soon
		if !driverkit.Pause(ctx, readOnlyPoll) {
			return
		}
	}
}
