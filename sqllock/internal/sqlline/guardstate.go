package sqlline

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// The leases of one hold follow each other inside the process: the hold is passed on, or
// they are nested in another lease. The store does not learn of it, so by its row a
// snapshot from before a lease cannot be told from a new one, and guarded transactions
// of two such leases could overlap. So before the first guard of a lease that is not its
// hold's first, the row is changed outside of the transaction. That waits for the
// guarded transactions of the earlier leases, and from then on a snapshot that does not
// show the change is too old.

// guardState is what is known of the guards of one claim.
type guardState struct {
	turn  int   // the last lease for which the row was changed
	until int64 // the expiry that was set then
	tx    any   // the last guarded transaction
}

// touchForLease changes the row of c for a lease, once, and returns the expiry that the
// transaction's snapshot must show. held is false if the hold is gone.
func (s *session) touchForLease(ctx context.Context, tx any, c driver.Claim, lease driver.Grant, turn int) (until int64, held bool, err error) {
	begun := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		until, known := s.touched(tx, c, turn)
		if known || !c.Exclusive() || s.e.q.TouchHold.Empty() { // earlier leases of a shared hold excluded no other holder
			return until, true, nil
		}
		if err := lease.Err(); err != nil {
			return 0, false, err
		}
		if until, held, err = s.touch(ctx, c, lease.Fence()); err != nil || !held {
			return 0, false, err
		}
		if until != 0 {
			s.setGuard(c, guardState{turn: turn, until: until, tx: tx})
			return until, true, nil
		}
		// A transaction that waits for itself, in a form that was not recognised, must
		// not wait for ever.
		if time.Since(begun) > s.ttl {
			return 0, false, fmt.Errorf("%w: an earlier lease of the same hold has guarded one that was not committed or rolled back", sqlstore.ErrLocked)
		}
		if !driverkit.Pause(ctx, pause) {
			return 0, false, ctx.Err()
		}
	}
}

// touched reports whether the row need not be changed for a guard: it was changed for
// this lease or a later one, or the transaction is the last one that was guarded, so
// that no other came in between.
func (s *session) touched(tx any, c driver.Claim, turn int) (until int64, known bool) {
	known = turn == 0
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		var g guardState
		if p.State.guard != nil {
			g = *p.State.guard
		}
		if known = turn <= g.turn || isSameTx(g.tx, tx); known {
			p.State.guard = &guardState{turn: g.turn, until: g.until, tx: tx}
			until = g.until
		}
	})
	return until, known
}

func isSameTx(a, b any) bool {
	return a != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// touch changes the row, unless a guarded transaction has it locked: then until is 0.
func (s *session) touch(ctx context.Context, c driver.Claim, fence uint64) (until int64, held bool, err error) {
	a := s.args(c)
	a.Num[sqlstore.Token] = int64(fence)
	run := func(q *sqlstore.Statement, row func(sqlstore.Row) error) error {
		return s.e.d.Store.Run(ctx, &sqlstore.Batch{Beat: true, Steps: []sqlstore.Step{{Statement: q, Args: a, Row: row}}})
	}
	if err = run(s.e.q.TouchHold, func(r sqlstore.Row) error { return r.Scan(&until) }); err != nil || until != 0 {
		return until, true, err
	}
	err = run(s.e.q.SeeHold, func(sqlstore.Row) error { held = true; return nil })
	return 0, held, err
}

// setGuard stores g unless the claim has ended, or a later lease was guarded.
func (s *session) setGuard(c driver.Claim, g guardState) {
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		if p.State.guard == nil || g.turn >= p.State.guard.turn {
			p.State.guard = &g
		}
	})
}

// notifyFirst wakes the first waiter of a line whose hold was released while a guarded
// transaction is still open: that keeps the claim from being granted, and ends without a
// notice, so the waiter would not look before the hold's expiry. It polls instead, once
// it has seen the line without a holder. If this fails, the waiter is only slower.
func (e *Engine) notifyFirst(ctx context.Context, name string) {
	if e.d.Notify == nil { // waiters poll, or the release waits for the transaction
		return
	}
	line, err := e.Line(ctx, name)
	// A guarded shared hold stays at the front of the line although it has ended.
	first := slices.IndexFunc(line, func(x driver.Entry) bool { return !x.Held })
	if err != nil || first < 0 {
		return
	}
	e.notify(ctx, changedClaim{id: line[first].ID})
}
