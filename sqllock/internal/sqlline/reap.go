package sqlline

import (
	"context"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Reap ends all claims of a process, line by line, if it is dead, and reports to the
// dialect's Liveness when none is left. It may be repeated: the process that reaps may
// die too.
func Reap(ctx context.Context, e *Engine, owner string) (reaped bool, err error) {
	done, dead := e.d.Liveness.ProveDead(owner)
	if !dead {
		return false, nil
	}
	defer func() { done(reaped) }()
	keys, err := e.readTexts(ctx, e.q.OwnedNames, owned(owner))
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := e.reapLine(ctx, key, owner); err != nil {
			return false, err
		}
	}
	return true, nil
}

// reapBlockers ends the claims of dead processes in one claim's line and reports whether
// there were any. Their claims in other lines are left to the claims that wait there: a
// caller must not pay for them.
func (e *Engine) reapBlockers(ctx context.Context, a *sqlstore.Args) (found bool, err error) {
	owners, err := e.readTexts(ctx, e.q.LineBlockers, a)
	if err != nil {
		return false, err
	}
	for _, owner := range owners {
		done, dead := e.d.Liveness.ProveDead(owner)
		if !dead {
			continue
		}
		err := e.reapLine(ctx, a.Key(), owner)
		done(err == nil && e.hasNoRows(ctx, owner))
		if err != nil {
			return found, err
		}
		found = true
	}
	return found, nil
}

// hasNoRows reports whether no row belongs to a process any more.
func (e *Engine) hasNoRows(ctx context.Context, owner string) bool {
	rows, err := e.readTexts(ctx, e.q.OwnerRows, owned(owner))
	return err == nil && len(rows) == 0
}

// reapLine ends the claims of a dead process in one line and grants what fits then.
func (e *Engine) reapLine(ctx context.Context, key, owner string) error {
	a := owned(owner)
	a.Text[sqlstore.Name] = key
	return e.endClaims(ctx, a, func(b *lineBatch) { b.add(a, e.q.ReapHold, e.q.ReapClaims) })
}
