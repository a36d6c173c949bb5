package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// beatSeen prolongs claims where they were last seen, in one batch, and reads when
// waiting ones need to look.
func (s *session) beatSeen(ctx context.Context, all []*beatEntry) error {
	var claims, holds []*beatEntry
	for _, p := range all {
		p.inHead, p.inLine = false, false
		if p.seen.inHead {
			holds = append(holds, p)
		} else {
			claims = append(claims, p)
		}
	}
	var expiries lineExpiries
	b := sqlstore.Batch{Beat: true, Steps: s.beatClaims(claims)}
	b.Steps = append(b.Steps, s.beatHolds(holds)...)
	b.Steps = append(b.Steps, expiries.steps(s, claims)...)
	sent := time.Now()
	if err := s.runBeat(ctx, &b, all); err != nil {
		return err
	}
	expiries.apply(s, claims, sent)
	return nil
}

// beatSearch prolongs claims in both places and looks for those that neither had. The
// claim table comes before the head row, since that is how a claim moves: if it moves
// between the two, the second finds it. find_claim reads both at one moment.
func (s *session) beatSearch(ctx context.Context, all []*beatEntry) error {
	b := sqlstore.Batch{Beat: true}
	for _, p := range all {
		p.inHead, p.inLine, p.found = false, false, false
		b.Steps = append(b.Steps, s.beatClaim(p, s.e.q.BeatClaim))
		if p.claim.Exclusive() {
			b.Steps = append(b.Steps, s.beatHold(p, s.e.q.BeatHold))
		}
		b.Steps = append(b.Steps, sqlstore.Step{Statement: s.e.q.FindClaim, Args: p.args, Row: func(r sqlstore.Row) error {
			var inHead, token int64
			err := r.Scan(&inHead, &token)
			if p.found = true; p.isSame(token) {
				p.seen = location{token: token, inHead: inHead != 0}
			}
			return err
		}})
	}
	if err := s.runBeat(ctx, &b, all); err != nil {
		return err
	}
	for _, p := range all {
		if p.out.Valid == 0 && !p.found {
			*p.out = driver.Standing{Gone: true}
			s.claims.End(p.claim)
		}
	}
	return nil
}

// runBeat runs a batch of a beat and answers for the claims it has found.
func (s *session) runBeat(ctx context.Context, b *sqlstore.Batch, all []*beatEntry) error {
	if err := s.e.d.Store.Run(ctx, b); err != nil {
		return err // rows of a transaction that did not commit promise nothing
	}
	for _, p := range all {
		switch {
		case p.replaced: // it stays in the session's table, so that Close ends it
			*p.out = driver.Standing{Gone: true}
			continue
		case p.inHead:
			*p.out = driver.Standing{Held: true, Token: uint64(p.seen.token), Valid: s.ttl}
		case p.inLine:
			*p.out = driver.Standing{Held: p.held, Ahead: -1, Valid: s.ttl}
			if p.held {
				p.out.Token = uint64(p.seen.token)
			}
		default:
			continue
		}
		s.saw(p.claim, p.seen)
		s.setTimedOut(p, false)
	}
	return nil
}

// beatHolds returns the steps that prolong claims in the head row: one step, where one
// statement can.
func (s *session) beatHolds(all []*beatEntry) []sqlstore.Step {
	if s.e.q.BeatHolds.Empty() || len(all) < 2 {
		return beatEach(all, s.e.q.BeatHold, s.beatHold)
	}
	a, byID := s.listed(all)
	return []sqlstore.Step{{Statement: s.e.q.BeatHolds, Args: a, Row: func(r sqlstore.Row) error {
		var id string
		var token int64
		if err := r.Scan(&id, &token); err != nil {
			return err
		}
		if p := byID[id]; p != nil {
			p.seenInHead(token)
		}
		return nil
	}}}
}

// beatClaims returns the steps that prolong claims in the claim table, as beatHolds.
func (s *session) beatClaims(all []*beatEntry) []sqlstore.Step {
	if s.e.q.BeatClaims.Empty() || len(all) < 2 {
		return beatEach(all, s.e.q.BeatClaim, s.beatClaim)
	}
	a, byID := s.listed(all)
	return []sqlstore.Step{{Statement: s.e.q.BeatClaims, Args: a, Row: func(r sqlstore.Row) error {
		var id string
		var held int64
		if err := r.Scan(&id, &held); err != nil {
			return err
		}
		if p := byID[id]; p != nil {
			p.seenInLine(held)
		}
		return nil
	}}}
}

func beatEach(all []*beatEntry, q *sqlstore.Statement, step func(*beatEntry, *sqlstore.Statement) sqlstore.Step) []sqlstore.Step {
	steps := make([]sqlstore.Step, len(all))
	for i, p := range all {
		steps[i] = step(p, q)
	}
	return steps
}

// listed returns the arguments of a statement about many claims, and these by their IDs.
func (s *session) listed(all []*beatEntry) (*sqlstore.Args, map[string]*beatEntry) {
	rows := make([]*sqlstore.Args, len(all))
	byID := make(map[string]*beatEntry, len(all))
	for i, p := range all {
		p.args.Num[sqlstore.Token] = p.seen.token
		rows[i], byID[p.claim.ID] = p.args, p
	}
	a := &sqlstore.Args{List: rows}
	a.SetDuration(sqlstore.TTL, s.ttl)
	return a, byID
}

func (s *session) beatHold(p *beatEntry, q *sqlstore.Statement) sqlstore.Step {
	return sqlstore.Step{Statement: q, Args: p.args, Row: func(r sqlstore.Row) error {
		var token int64
		err := r.Scan(&token)
		p.seenInHead(token)
		return err
	}}
}

func (s *session) beatClaim(p *beatEntry, q *sqlstore.Statement) sqlstore.Step {
	p.args.Num[sqlstore.Token] = p.seen.token
	return sqlstore.Step{Statement: q, Args: p.args, Row: func(r sqlstore.Row) error {
		var held int64
		err := r.Scan(&held, &p.seen.token)
		p.seenInLine(held)
		return err
	}}
}
