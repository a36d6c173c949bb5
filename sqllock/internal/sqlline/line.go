package sqlline

import (
	"context"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A lineBatch changes lines and collects the claims that it has granted or ended.
type lineBatch struct {
	sqlstore.Batch
	changed []string
}

// returnsIDs are the statements whose rows are claims that were granted or ended.
var returnsIDs = map[string]bool{
	"grant_next": true, "expire_claims": true, "delete_claim": true, "promote": true, "admit_shared": true, "reap_claims": true,
}

// add appends statements about one claim or name, except those that the dialect does
// not have.
func (b *lineBatch) add(a *sqlstore.Args, all ...*sqlstore.Statement) {
	for _, q := range all {
		if returnsIDs[q.Name] {
			b.addRow(a, q, b.changedID)
		} else {
			b.addRow(a, q, nil)
		}
	}
}

func (b *lineBatch) changedID(r sqlstore.Row) error {
	var id string
	err := r.Scan(&id)
	b.changed = append(b.changed, id)
	return err
}

// addRow appends one statement and sets what its rows do.
func (b *lineBatch) addRow(a *sqlstore.Args, q *sqlstore.Statement, row func(sqlstore.Row) error) {
	if !q.Empty() {
		b.Steps = append(b.Steps, sqlstore.Step{Statement: q, Args: a, Row: row, LocksHead: q.Name == "lock_head"})
	}
}

// grantFitting appends the statements that grant what fits now. Claims that have ended
// were deleted before.
func (b *lineBatch) grantFitting(a *sqlstore.Args, q *statements) {
	b.add(a, q.LockFront, q.Promote, q.DeletePromoted, q.AdmitShared, q.Recount)
}

// run executes a batch and notifies the waiters of the claims it has changed.
func (e *Engine) run(ctx context.Context, b *lineBatch) error {
	if err := e.d.Store.Run(ctx, &b.Batch); err != nil || b.Aborted || b.Missing {
		return err
	}
	e.notify(ctx, b.changed...)
	e.pollSoon(e.name(b.Steps[0].Args.Key()))
	return nil
}

// handOver grants a name that was just released to the next claim.
func (e *Engine) handOver(ctx context.Context, key string) error {
	if !e.q.GrantNext.Empty() {
		var b lineBatch
		b.add(sqlstore.Named(key), e.q.GrantNext)
		if err := e.run(ctx, &b); err != nil || len(b.changed) > 0 {
			return err
		}
	}
	return e.advance(ctx, key)
}

// advance ends what has expired in a line and grants what fits.
func (e *Engine) advance(ctx context.Context, key string) error {
	return e.endClaims(ctx, sqlstore.Named(key), func(*lineBatch) {})
}

// endClaims ends claims in a line by the statements that end appends, and what has
// expired, and grants what fits then.
func (e *Engine) endClaims(ctx context.Context, a *sqlstore.Args, end func(*lineBatch)) error {
	var b lineBatch
	q := e.q
	b.add(a, q.LockHead, q.ExpireHold)
	end(&b)
	b.add(a, q.ExpireClaims, q.CountDepartures)
	b.grantFitting(a, q)
	return e.run(ctx, &b)
}
