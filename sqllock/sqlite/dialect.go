package sqlite

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// dialect is SQLite's: it has every shared statement as it is, but needs no
// row locks. The clock of expiry is the caller's kernel, so it is a parameter.
func dialect(e *Engine) sqllock.Dialect {
	d := words(e.census, e.store.w.clock)
	d.Store, d.Attend, d.Live = e.store, e.attend, e.census.id
	return d
}

// viewDialect is that of a file which is only read, through views.
func viewDialect(e *Engine) sqllock.Dialect {
	d := words(e.census, e.view.clock)
	d.Store, d.Attend = e.view, e.view.attend
	d.Macros["head"], d.Macros["claim"] = "pawl_head_seen", "pawl_claim_seen"
	return d
}

func words(cs *census, ck clock) sqllock.Dialect {
	return sqllock.Dialect{
		Name: "sqlite",
		Macros: map[string]string{
			"head": "pawl_head", "claim": "pawl_claim", "record": "pawl_record",
			"now": ":now", "wall": ":wall",
			"mint": "max((SELECT fence FROM pawl_head WHERE name = '') + 1, :wall)",
			"max":  "max", "text": "TEXT",
			"unguarded": "1 = 1", // a guard is the only one who writes
		},
		Statements: map[string]string{"lock": "", "front": "", "veto": ""},
		Mark:       "?",
		Numbered:   true,
		Fencing:    driver.Durable,
		Guards:     &sqllock.Guards{Clock: ck.now, Wall: ck.wall},
		Census:     cs,
	}
}

const (
	pollFast   = time.Millisecond
	pollSlow   = 5 * time.Millisecond
	probeEvery = 50 * time.Millisecond
)

// attend polls for the commits of others while somebody waits, and looks for
// the dead among those in the way.
func (e *Engine) attend(ctx context.Context, waiting sqllock.Waiters) {
	seen, wait := int64(-1), pollFast
	var probed time.Time
	for waiting.Wanted(ctx) == nil {
		// The version is read before the look: what comes between is seen twice, not missed.
		v, err := e.store.version(ctx)
		if err == nil && v != seen && waiting.Look(ctx) == nil {
			seen, wait = v, pollFast
		}
		if now := time.Now(); now.Sub(probed) >= probeEvery {
			probed = now
			_ = waiting.Probe(ctx) // repeated soon enough
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(wait*5/4, pollSlow)
	}
}
