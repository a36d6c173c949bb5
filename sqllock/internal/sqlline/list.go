package sqlline

import (
	"context"
	"iter"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A page of a list is read at once and shown after, so that a slow reader of the list
// keeps nothing open in the store.
const listPage = 500

type listRow struct {
	key string
	now int64
	claimRow
}

// List yields the claims on names that begin with prefix. Each page is of one moment;
// claims that come or go between two pages may be missed.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		a := e.named(prefix)
		a.Num[sqlstore.Token] = -1
		a.Num[sqlstore.Count] = listPage
		for {
			page, err := e.readClaims(ctx, e.q.List, a)
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, r := range page {
				if !strings.HasPrefix(r.key, e.key(prefix)) {
					return // keys are ordered by their bytes: none behind this one has the prefix
				}
				if r.id == "" { // a free name, which only says how far the page went
					continue
				}
				if !yield(r.entry(e.name(r.key), r.now), nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last := page[len(page)-1]
			a.Text[sqlstore.Name] = last.key
			a.Num[sqlstore.Token] = last.token
		}
	}
}

// Line returns the claims of one name, as they are at one moment.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	all, err := e.readClaims(ctx, e.q.Line, e.named(name))
	if err != nil {
		return nil, err
	}
	line := make([]driver.Entry, len(all))
	for i, r := range all {
		line[i] = r.entry(name, r.now)
	}
	return line, nil
}

// readClaims reads the rows of list and line.
func (e *Engine) readClaims(ctx context.Context, q *sqlstore.Statement, a *sqlstore.Args) (all []listRow, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = e.readBounded(ctx, q, a, func(row sqlstore.Row) error {
		var r listRow
		err := row.Scan(&r.now, &r.key, &r.id, &r.try, &r.token, &r.session, &r.need, &r.limit,
			&r.queue, &r.note, &r.held, &r.since, &r.until)
		all = append(all, r)
		return err
	})
	return all, err
}

// Evict ends exactly the claim that x shows, and grants what fits then.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := e.claimArgs(x.Claim)
	a.Num[sqlstore.Token] = int64(x.Fence)
	if x.Held {
		a.Num[sqlstore.Held] = 1
	}
	found := false
	err := e.endClaims(ctx, a, func(b *lineBatch) {
		evicted := func(sqlstore.Row) error {
			found, b.departed = true, true
			b.changed = append(b.changed, changedClaim{id: x.ID})
			return nil
		}
		b.addRow(a, e.q.EvictHold, evicted)
		b.addRow(a, e.q.EvictClaim, evicted)
	})
	if err != nil {
		return err
	}
	if !found {
		return driver.ErrGone
	}
	return nil
}
