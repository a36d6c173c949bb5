package sqllock

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// The leases of one hold follow each other inside the process: the hold is passed
// on, or they are nested in another. The store is told nothing of it, so its row
// does not tell a transaction that looked before the lease from one that looks
// now, and guarded transactions of two such leases pass each other at the row.
// So before the first guard of a lease that is not its hold's first, the row is
// changed from outside of the transaction. That waits for the guarded transactions
// of the leases before, and from then on an older view is one that does not see it.

// A guardMark is what is known of the guards of one claim.
type guardMark struct {
	turn  int   // the last lease for which the row was changed
	until int64 // the expiry that was set then
	tx    any   // the last transaction that was guarded
}

// mark changes the row of c for a lease, once, and returns what a view of the
// transaction must show. held is false if the hold is gone.
func (s *session) mark(ctx context.Context, tx any, c driver.Claim, lease driver.Grant, turn int) (until int64, held bool, err error) {
	begun := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		until, known := s.marked(tx, c, turn)
		if known || !c.Exclusive() || s.e.q.guardMarkX.Text == "" { // nobody who shares was excluded by the leases before
			return until, true, nil
		}
		if err := lease.Err(); err != nil {
			return 0, false, err
		}
		if until, held, err = s.markOnce(ctx, c, lease.Fence()); err != nil || !held {
			return 0, false, err
		}
		if until != 0 {
			s.noteMark(c, guardMark{turn: turn, until: until, tx: tx})
			return until, true, nil
		}
		// One that waits for itself, by a transaction that we do not know again,
		// must come to an end.
		if time.Since(begun) > s.ttl {
			return 0, false, fmt.Errorf("%w: an earlier lease of the same hold has guarded one that was not committed or rolled back", ErrLocked)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return 0, false, ctx.Err()
		}
	}
}

// marked reports whether the row need not be changed for a guard: it was for this
// lease or a later one, or the transaction has it already, so that no guarded one
// came in between.
func (s *session) marked(tx any, c driver.Claim, turn int) (until int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.marks[c.ID]
	if turn > m.turn && !same(m.tx, tx) {
		return 0, false
	}
	s.noteMarkLocked(c, guardMark{turn: m.turn, until: m.until, tx: tx})
	return m.until, true
}

func same(a, b any) bool {
	return a != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// markOnce changes the row, unless a guarded transaction has it: then until is 0.
func (s *session) markOnce(ctx context.Context, c driver.Claim, fence uint64) (until int64, held bool, err error) {
	a := s.args(c)
	a.set(Token, int64(fence))
	take := func(q *Query, row func(Row) error) error {
		return s.e.d.Store.Run(ctx, &Flight{Beat: true, Steps: []Step{{Query: q, Args: a, Row: row}}})
	}
	if err = take(s.e.q.guardMarkX, func(r Row) error { return r.Scan(&until) }); err != nil || until != 0 {
		return until, true, err
	}
	err = take(s.e.q.guardSeenX, func(Row) error { held = true; return nil })
	return 0, held, err
}

func (s *session) noteMark(c driver.Claim, m guardMark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteMarkLocked(c, m)
}

// noteMarkLocked remembers m unless the claim has ended meanwhile.
func (s *session) noteMarkLocked(c driver.Claim, m guardMark) {
	if _, ok := s.claims[c.ID]; !ok || m.turn < s.marks[c.ID].turn {
		return
	}
	if s.marks == nil {
		s.marks = map[string]guardMark{}
	}
	s.marks[c.ID] = m
}

// guarded reports whether a transaction was guarded by c.
func (s *session) guarded(c driver.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.marks[c.ID]
	return ok
}

// tellFirst has the first in line look, where a hold is given back though a
// transaction that it guards is open: that keeps the first out, and ends without a
// word, and it would not look before the hold's expiry. What fails costs only that.
func (e *Engine) tellFirst(ctx context.Context, name string) {
	if e.d.Tell == nil { // it looks by itself, or the hold is not given back before
		return
	}
	line, err := e.Line(ctx, name)
	// A shared hold that is guarded stays at the head of the line although it has ended.
	first := slices.IndexFunc(line, func(x driver.Entry) bool { return !x.Held })
	if err != nil || first < 0 {
		return
	}
	e.tell(ctx, line[first].ID)
}
