package sqlline

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Enter takes a free name in one statement; a claim that is not exclusive, or whose
// name is not free, joins the line.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.add(ctx, c); err != nil {
		return driver.Standing{}, err
	}
	a := s.args(c)
	if s.e.d.Remote {
		done, err := s.e.entering.enter(ctx, a.Key(), s.enterConns)
		if err != nil {
			return driver.Standing{}, err
		}
		defer done()
	}
	if c.Exclusive() {
		token, err := s.take(ctx, a, !c.Queue)
		if err != nil {
			return s.locked(c, err)
		}
		if token != 0 {
			s.saw(c, location{token: token, inHead: true})
			return driver.Standing{Held: true, Token: uint64(token), Valid: s.ttl}, s.entered(ctx, a)
		}
	}
	if !c.Queue && s.e.d.Liveness == nil {
		if st, blocked, err := s.blocked(ctx, c, a); blocked || err != nil {
			return st, err
		}
	}
	st, joined, err := s.appendClaim(ctx, c, a)
	if err != nil {
		return driver.Standing{}, err
	}
	if joined {
		return st, s.entered(ctx, a)
	}
	all, err := s.join(ctx, []driver.Claim{c}, []*sqlstore.Args{a}, false)
	if err != nil {
		return s.locked(c, err)
	}
	return all[0], s.entered(ctx, a)
}

// EnterAll enters every claim in one transaction. If a claim that does not queue cannot
// be held, or a claim is refused, none is entered.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.add(ctx, cs...); err != nil {
		return nil, err
	}
	args := make([]*sqlstore.Args, len(cs))
	for i, c := range cs {
		args[i] = s.args(c)
	}
	out, err := s.join(ctx, cs, args, true)
	if err != nil {
		return out, err
	}
	return out, s.entered(ctx, args...)
}

// take is the one-statement path; token 0 says that the claim has to join the line.
func (s *session) take(ctx context.Context, a *sqlstore.Args, noWait bool) (token int64, err error) {
	q, unknown := s.e.q.TakeFree, false // unknown: the statement may make the row, so a sweep would wait for it
	if !s.e.q.TakeKnown.Empty() {
		if unknown = !s.e.heads.has(a.Key()); !unknown {
			q = s.e.q.TakeKnown
		}
	}
	b := sqlstore.Batch{NoWait: noWait || unknown, Steps: []sqlstore.Step{
		{Statement: q, Args: a, Row: func(r sqlstore.Row) error { return r.Scan(&token) }},
	}}
	err = s.enterInflight(ctx, []*sqlstore.Args{a}, func(ctx context.Context) error { return s.e.d.Store.Run(ctx, &b) })
	locked := errors.Is(err, sqlstore.ErrLocked) // an open transaction has the row, so it exists
	if !s.e.q.TakeKnown.Empty() && (token != 0 || locked) {
		s.e.heads.add(a.Key())
	}
	if unknown && locked && !noWait && ctx.Err() == nil {
		return 0, nil // the batch that joins the line waits for the row, and keeps no sweep waiting
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}

// blocked reads the line before a claim that does not queue is sent to join it: if a
// holder excludes the claim, nothing has to be written to say so. Dialects that detect
// dead processes skip this, since the batch finds their claims.
func (s *session) blocked(ctx context.Context, c driver.Claim, a *sqlstore.Args) (st driver.Standing, blocked bool, err error) {
	r := claimReading{name: c.Name}
	if err := s.e.read(ctx, s.e.q.Standing, a, r.scan); err != nil {
		return driver.Standing{}, false, err
	}
	excluded := c.Exclusive() || r.first.need >= r.first.limit
	if r.known || r.clash || r.first.held == 0 || !excluded || r.expiry <= r.now {
		return driver.Standing{}, false, nil
	}
	s.claims.End(c)
	return r.standing(), true, nil
}

// locked is the answer to a claim that does not queue where an open transaction has the
// row: it is not held now, and was not entered.
func (s *session) locked(c driver.Claim, err error) (driver.Standing, error) {
	if c.Queue || !errors.Is(err, sqlstore.ErrLocked) {
		return driver.Standing{}, err
	}
	s.claims.End(c)
	return driver.Standing{Ahead: -1, Pause: guardedPause}, nil
}

// entered ends again what was entered while the session was being closed: Close may
// have read its claims before.
func (s *session) entered(ctx context.Context, args ...*sqlstore.Args) error {
	if !s.claims.Closed() {
		return nil
	}
	for _, a := range args {
		_, _ = s.leaveLine(ctx, a, true) // a claim that stays expires, or is reaped
	}
	return driver.ErrGone
}
