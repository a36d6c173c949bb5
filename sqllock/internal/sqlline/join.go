package sqlline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// join puts claims in their lines. It repeats that when it found a dead process ahead,
// so that a crash is no reason to wait.
func (s *session) join(ctx context.Context, cs []driver.Claim, args []*sqlstore.Args, all bool) ([]driver.Standing, error) {
	for {
		readings, err := s.tryJoin(ctx, cs, args, all)
		if err != nil {
			return nil, err
		}
		if readings == nil { // a name has no head row, or it was deleted just now
			if err := s.e.makeHeads(ctx, args); err != nil {
				return nil, err
			}
			continue
		}
		if s.e.d.Liveness != nil && s.reapAhead(ctx, args, readings) {
			continue
		}
		if len(readings) > 0 && readings[0].aborted {
			if err := s.leaveEntered(ctx, args); err != nil {
				return nil, err
			}
		}
		return s.standings(cs, readings, all)
	}
}

// appendClaim puts an exclusive claim at the end of a line behind a holder, where the
// dialect can do so in less than join does. It reports whether it has; otherwise nothing
// was changed.
func (s *session) appendClaim(ctx context.Context, c driver.Claim, a *sqlstore.Args) (st driver.Standing, joined bool, err error) {
	q := s.e.q
	if q.AppendClaim.Empty() || !c.Exclusive() || !c.Queue || c.Try > 1 {
		return driver.Standing{}, false, nil
	}
	r := claimReading{name: c.Name}
	b := sqlstore.Batch{Steps: []sqlstore.Step{
		{Statement: q.LockHead, Args: a, LocksHead: true},
		{Statement: q.AppendClaim, Args: a, Row: func(row sqlstore.Row) error { joined = true; return r.scan(row) }},
	}}
	err = s.enterInflight(ctx, []*sqlstore.Args{a}, func(ctx context.Context) error { return s.e.d.Store.Run(ctx, &b) })
	if err != nil || b.Missing || !joined {
		return driver.Standing{}, false, err
	}
	all, err := s.standings([]driver.Claim{c}, []claimReading{r}, false)
	if err != nil {
		return driver.Standing{}, false, err
	}
	return all[0], true, nil
}

// tryJoin returns nil if a name had no head row.
func (s *session) tryJoin(ctx context.Context, cs []driver.Claim, args []*sqlstore.Args, all bool) ([]claimReading, error) {
	b := s.e.newLineBatch()
	b.NoWait = !slices.ContainsFunc(cs, func(c driver.Claim) bool { return c.Queue })
	readings := make([]claimReading, len(cs))
	for i := range readings {
		readings[i] = claimReading{name: cs[i].Name, ahead: -1}
	}
	for _, i := range lockOrder(args) {
		s.addJoin(b, cs[i], args[i])
		s.addStanding(b, args[i], &readings[i], all)
	}
	if err := s.enterInflight(ctx, args, func(ctx context.Context) error { return s.e.run(ctx, b) }); err != nil {
		return nil, err
	}
	if b.Missing {
		return nil, nil
	}
	if b.Aborted {
		for i := range readings { // all was rolled back, and lines behind the failed step were not read
			readings[i].held, readings[i].aborted = false, true
		}
	}
	return readings, nil
}

// addJoin appends the statements that put one claim in its line.
func (s *session) addJoin(b *lineBatch, c driver.Claim, a *sqlstore.Args) {
	q := s.e.q
	if !s.e.d.SeparateHead {
		b.add(a, q.MakeHead)
	}
	b.add(a, q.LockHead, q.ExpireHold)
	if c.Try > 1 { // a lower try of the same claim ends here
		a.Num[sqlstore.MaxTry] = int64(c.Try) - 1
		b.add(a, q.ReleaseHold, q.DeleteClaim)
	}
	b.add(a, q.ExpireClaims, q.CountDepartures, q.ProlongClaim)
	if c.Exclusive() {
		b.add(a, q.BeatHold)
	}
	b.add(a, q.JoinLine, q.RaiseFence)
	b.grantFitting(a, q)
}

// addStanding appends the statement that reads a claim's standing. If all claims are
// entered or none, a claim that is not in its line aborts the batch.
func (s *session) addStanding(b *lineBatch, a *sqlstore.Args, r *claimReading, all bool) {
	q := s.e.q
	b.Steps = append(b.Steps, sqlstore.Step{Statement: q.Standing, Args: a, Row: r.scan, Required: all && q.RequireClaim.Empty()})
	if all && !q.RequireClaim.Empty() {
		b.Steps = append(b.Steps, sqlstore.Step{Statement: q.RequireClaim, Args: a, Required: true})
	}
}

// makeHeads makes the head rows of names, each in a batch by itself, in dialects where
// joining does not make them.
func (e *Engine) makeHeads(ctx context.Context, args []*sqlstore.Args) error {
	if !e.d.SeparateHead {
		return ctx.Err()
	}
	for _, a := range args {
		if err := e.d.Store.Run(ctx, &sqlstore.Batch{Steps: []sqlstore.Step{{Statement: e.q.MakeHead, Args: a}}}); err != nil {
			return err
		}
	}
	return nil
}

// lockOrder is the order in which rows are locked: that of the names, so that two
// batches on the same names cannot deadlock.
func lockOrder(args []*sqlstore.Args) []int {
	order := make([]int, len(args))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(args[i].Key(), args[j].Key()) })
	return order
}

// reapAhead reports whether claims of a dead process were ahead of a claim that is not
// held, and have been ended. An error is not returned: the standing that was read is
// true, and waiting finds the dead process again.
func (s *session) reapAhead(ctx context.Context, args []*sqlstore.Args, readings []claimReading) (found bool) {
	for i := range readings {
		if readings[i].held {
			continue
		}
		reaped, err := s.e.reapBlockers(ctx, args[i])
		if err != nil {
			return false
		}
		found = found || reaped
	}
	return found
}

// leaveEntered ends claims that an earlier EnterAll of the same ids had entered without an
// answer, where its repetition was rolled back: none may stay. Mostly there are none, so
// it reads before it writes.
func (s *session) leaveEntered(ctx context.Context, args []*sqlstore.Args) error {
	for _, a := range args {
		var r claimReading
		if err := s.e.read(ctx, s.e.q.Standing, a, r.scan); err != nil {
			return err
		}
		if !r.known {
			continue
		}
		if _, err := s.leaveLine(ctx, a, true); err != nil {
			return err
		}
	}
	return nil
}

// standings turns readings into standings, or into the error of a refusal.
func (s *session) standings(cs []driver.Claim, readings []claimReading, all bool) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(cs))
	var err error
	for i, c := range cs {
		r := &readings[i]
		switch {
		case r.aborted, !r.known: // it does not queue and could not be held, or was refused
			s.claims.End(c)
			out[i] = r.standing()
			if r.first.id == c.ID { // the name was free, and is again
				out[i].Holder = nil
			}
			if r.clash && !r.known {
				err = driver.ErrLimit
			}
		case r.try > c.Try:
			out[i] = driver.Standing{Gone: true}
		case r.try < c.Try: // a guard keeps the earlier try from ending
			err = fmt.Errorf("%w: an earlier try is guarded by an open transaction", driver.ErrUnreachable)
		default:
			out[i] = r.standing()
			out[i].Valid = s.ttl
			s.saw(c, r.location(c))
		}
	}
	if err != nil && !all {
		return nil, err
	}
	return out, err
}
