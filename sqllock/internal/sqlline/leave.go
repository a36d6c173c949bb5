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
	guarded := s.stateOf(c).guard != nil
	err := s.leave(ctx, c)
	if err == nil && guarded {
		s.e.notifyFirst(ctx, c.Name)
	}
	return err
}

// leave ends a claim wherever it is.
func (s *session) leave(ctx context.Context, c driver.Claim) error {
	a := s.args(c)
	waiting := s.stateOf(c).seen.waiting // or granted since, which leaveLine finds
	if waiting {
		done, err := s.e.leaving.enter(ctx, a.Key())
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
		released, others, err := s.release(ctx, a)
		if err != nil {
			return err
		}
		if released {
			s.claims.End(c)
			if others > 0 {
				_ = s.e.handOver(ctx, a.Key()) // the name is released; waiters look for themselves, only later
			} else {
				s.e.pollSoon(c.Name) // for watchers
			}
			return nil
		}
	}
	ended, err := s.leaveLine(ctx, a, c.Exclusive())
	if err != nil {
		return err
	}
	s.claims.End(c)
	if !ended {
		return driver.ErrGone
	}
	return nil
}

// release ends an exclusive hold and returns the number of waiting claims.
func (s *session) release(ctx context.Context, a *sqlstore.Args) (released bool, waiting int64, err error) {
	a.Num[sqlstore.MaxTry] = a.Num[sqlstore.Try]
	b := sqlstore.Batch{Steps: []sqlstore.Step{{Statement: s.e.q.Unlock, Args: a, Row: func(r sqlstore.Row) error {
		released = true
		return r.Scan(&waiting)
	}}}}
	err = s.e.d.Store.Run(ctx, &b)
	return released, waiting, err
}

// leaveLine ends a waiting claim or a shared hold and grants what fits then. An
// exclusive claim may have been granted since it was last seen, so its hold is ended as
// well.
func (s *session) leaveLine(ctx context.Context, a *sqlstore.Args, exclusive bool) (ended bool, err error) {
	a.Num[sqlstore.MaxTry] = a.Num[sqlstore.Try]
	q := s.e.q
	found := func(sqlstore.Row) error { ended = true; return nil }
	var b lineBatch
	b.add(a, q.LockHead, q.ExpireHold)
	b.addRow(a, q.DeleteClaim, found)
	if exclusive {
		b.addRow(a, q.ReleaseHold, found)
	}
	b.add(a, q.ExpireClaims, q.CountDepartures)
	b.grantFitting(a, q)
	err = s.e.run(ctx, &b)
	return ended, err
}
