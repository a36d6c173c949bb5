package sqlite

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"

	"github.com/pawl-go/pawl/driverkit"
)

// dialect is that of an engine that writes.
func dialect(s *store, l *liveness) sqlline.Dialect {
	d := commonDialect(l, s.writer.clock)
	d.Store, d.Listen, d.Owner = s, s.listen, l.id
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
		Name: "sqlite",
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

const (
	pollFirst   = time.Millisecond
	pollLast    = 5 * time.Millisecond
	repairEvery = 50 * time.Millisecond
)

// listen polls for the commits of other processes while there are waiters, and searches
// for dead processes among those that block them.
func (s *store) listen(ctx context.Context, w sqlline.Waiters) {
	seen, wait := int64(-1), pollFirst
	var repaired time.Time
	for w.WaitForAny(ctx) == nil {
		// The version is read first: a commit in between is seen twice, and not missed.
		v, err := s.version(ctx)
		if err == nil && v != seen && w.WakeChanged(ctx) == nil {
			seen, wait = v, pollFirst
		}
		if now := time.Now(); now.Sub(repaired) >= repairEvery {
			repaired = now
			_ = w.Repair(ctx) // repeated soon
		}
		if !driverkit.Pause(ctx, wait) {
			return
		}
		wait = min(wait*5/4, pollLast)
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
