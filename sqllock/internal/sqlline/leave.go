package sqlline

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Leave releases an exclusive hold in one statement, and grants the name to the next
// claim in a second batch only if a claim waits. If the process dies between the two,
// the first waiter that looks finds the line without a holder and advances it. A
// waiting claim leaves its line in one batch.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

// leave ends a claim wherever it is.
func (s *session) leave(ctx context.Context, c driver.Claim) error {
	a := s.args(c)
	waiting := s.stateOf(c).seen.waiting // or granted since, which leaveLine finds
	if waiting {
		done, err := s.e.leaving.enter(ctx, a.Key(), leaveConns)
		if err != nil {
			return err
		}
		defer done()
	}
	if s.e.d.OneConn == nil {
		return s.leaveOnConn(ctx, c, a, waiting)
	}
	var left error
	if err := s.e.d.OneConn(ctx, func(ctx context.Context) { left = s.leaveOnConn(ctx, c, a, waiting) }); err != nil {
		return err
	}
	return left
}

func (s *session) leaveOnConn(ctx context.Context, c driver.Claim, a *sqlstore.Args, waiting bool) error {
	if !waiting && c.Exclusive() {
		released, others := false, int64(0)
		step := s.releaseStep(a, func(n int64) { released, others = true, n })
		if err := s.e.d.Store.Run(ctx, &sqlstore.Batch{Steps: []sqlstore.Step{step}}); err != nil {
			return err
		}
		if released {
			s.released(ctx, c, others)
			return nil
		}
	}
	ended, err := s.leaveLine(ctx, a, c.Exclusive())
	if err != nil {
		return err
	}
	guarded := s.stateOf(c).guard != nil
	s.claims.End(c)
	if !ended {
		return driver.ErrGone
	}
	if guarded {
		s.e.notifyFirst(ctx, c.Name)
	}
	return nil
}

// releaseStep ends an exclusive hold. If there was one, it calls released with the number
// of claims that wait for the name.
func (s *session) releaseStep(a *sqlstore.Args, released func(waiting int64)) sqlstore.Step {
	a.Num[sqlstore.MaxTry] = a.Num[sqlstore.Try]
	return sqlstore.Step{Statement: s.e.q.Unlock, Args: a, Row: func(r sqlstore.Row) error {
		var waiting int64
		err := r.Scan(&waiting)
		released(waiting)
		return err
	}}
}

// released grants a name that c has just released to the next claim.
func (s *session) released(ctx context.Context, c driver.Claim, waiting int64) {
	guarded := s.stateOf(c).guard != nil
	s.claims.End(c)
	if waiting > 0 {
		_ = s.e.handOver(ctx, s.e.key(c.Name)) // the name is released; waiters look for themselves, only later
		if guarded {
			s.e.notifyFirst(ctx, c.Name)
		}
	} else {
		s.e.pollSoon(c.Name) // for watchers
	}
}

// leaveLine ends a waiting claim or a shared hold and grants what fits then. An
// exclusive claim may have been granted since it was last seen, so its hold is ended as
// well.
func (s *session) leaveLine(ctx context.Context, a *sqlstore.Args, exclusive bool) (ended bool, err error) {
	a.Num[sqlstore.MaxTry] = a.Num[sqlstore.Try]
	err = s.e.endClaims(ctx, a, func(b *lineBatch) {
		found := func(sqlstore.Row) error { ended, b.departed = true, true; return nil }
		b.addRow(a, s.e.q.DeleteClaim, found)
		if exclusive {
			b.addRow(a, s.e.q.ReleaseHold, found)
		}
	})
	return ended, err
}
