package sqlline

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A lineBatch changes lines and collects the claims that it has granted or ended.
type lineBatch struct {
	sqlstore.Batch
	changed []changedClaim
	left    map[string]bool // of those, claims that nobody waits for any more

	owned bool // rows name their process

	// In dialects that tell processes: the owners of the first that waits in each line now.
	tells    bool
	departed bool // a claim has ended that is not in changed
	firsts   []string
}

// A changedClaim was granted or has ended.
type changedClaim struct {
	id    string
	owner string // the process that entered it; "" if that is not known
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
	var c changedClaim
	columns := []any{&c.id, &c.owner}
	if !b.owned {
		columns = columns[:1]
	}
	err := r.Scan(columns...)
	b.changed = append(b.changed, c)
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
	if b.tells {
		b.addRow(a, q.FirstOwner, func(r sqlstore.Row) error {
			var owner string
			err := r.Scan(&owner)
			b.firsts = append(b.firsts, owner)
			return err
		})
	}
}

// newLineBatch returns an empty batch.
func (e *Engine) newLineBatch() *lineBatch {
	return &lineBatch{owned: e.d.Owner != "", tells: e.d.Tell != nil}
}

// run executes a batch, notifies the waiters of the claims it has changed, and makes those
// of this process look that poll.
func (e *Engine) run(ctx context.Context, b *lineBatch) error {
	if err := e.change(ctx, b); err != nil || b.Aborted || b.Missing {
		return err
	}
	for i, s := range b.Steps {
		if key := s.Args.Key(); i == 0 || key != b.Steps[i-1].Args.Key() {
			e.pollSoon(e.name(key))
		}
	}
	return nil
}

// change executes a batch and notifies the waiters of the claims it has changed.
func (e *Engine) change(ctx context.Context, b *lineBatch) error {
	if err := e.d.Store.Run(ctx, &b.Batch); err != nil || b.Aborted || b.Missing {
		return err
	}
	e.notify(ctx, slices.DeleteFunc(b.changed, func(c changedClaim) bool { return b.left[c.id] })...)
	e.tell(b)
	return nil
}

// handOver grants a name that was just released to the next claim.
func (e *Engine) handOver(ctx context.Context, key string) error {
	if !e.q.GrantNext.Empty() {
		b := e.newLineBatch()
		b.add(sqlstore.Named(key), e.q.GrantNext)
		if err := e.run(ctx, b); err != nil || len(b.changed) > 0 {
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
	b := e.newLineBatch()
	e.addEnd(b, a, func() { end(b) })
	return e.run(ctx, b)
}

// addEnd appends the statements of endClaims.
func (e *Engine) addEnd(b *lineBatch, a *sqlstore.Args, end func()) {
	b.add(a, e.q.LockHead, e.q.ExpireHold)
	end()
	b.add(a, e.q.ExpireClaims, e.q.CountDepartures)
	b.grantFitting(a, e.q)
}

const (
	linesChunk = 20 // lines in one batch

	// together bounds a batch on several lines, within half of the time that there is: the
	// row of one of them may be locked for long. Then each is left by itself.
	together = 5 * time.Second
)

func halfOf(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(together, time.Until(end)/2)
	}
	return together
}

// handOverAll is handOver for many names.
func (e *Engine) handOverAll(ctx context.Context, keys []string) {
	slices.Sort(keys)
	if !e.q.GrantNext.Empty() && len(keys) > 0 && !e.d.eachStatement() {
		keys = e.grantTogether(ctx, keys)
	}
	e.advanceAll(ctx, keys)
}

// grantTogether grants names to the first claims in line, in one batch that does not wait
// long for a locked row, and returns the names that were not granted.
func (e *Engine) grantTogether(ctx context.Context, keys []string) (rest []string) {
	ctx, cancel := context.WithTimeout(ctx, halfOf(ctx))
	defer cancel()
	b := e.newLineBatch()
	b.NoWait = true
	granted := make([]bool, len(keys))
	for i, key := range keys {
		b.addRow(sqlstore.Named(key), e.q.GrantNext, func(r sqlstore.Row) error { granted[i] = true; return b.changedID(r) })
	}
	if e.run(ctx, b) != nil {
		return keys
	}
	for i, key := range keys {
		if !granted[i] {
			rest = append(rest, key)
		}
	}
	return rest
}

// advanceAll is advance for many names, some in a batch. What fails is left to those who
// wait there, or to the next sweep.
func (e *Engine) advanceAll(ctx context.Context, keys []string) {
	slices.Sort(keys)
	for chunk := range slices.Chunk(keys, linesChunk) {
		if len(chunk) > 1 && !e.d.eachStatement() && e.advanceTogether(ctx, chunk) {
			continue
		}
		for _, key := range chunk {
			if ctx.Err() != nil {
				return
			}
			_ = e.advance(ctx, key)
		}
	}
}

// advanceTogether advances lines in one batch and reports whether it could.
func (e *Engine) advanceTogether(ctx context.Context, keys []string) bool {
	ctx, cancel := context.WithTimeout(ctx, halfOf(ctx))
	defer cancel()
	b := e.newLineBatch()
	b.NoWait = true
	for _, key := range keys {
		e.addEnd(b, sqlstore.Named(key), func() {})
	}
	return e.run(ctx, b) == nil && !b.Missing
}
