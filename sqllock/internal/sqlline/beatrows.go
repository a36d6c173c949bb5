package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A beatEntry is one claim in a beat.
type beatEntry struct {
	claim driver.Claim
	args  *sqlstore.Args
	seen  location
	out   *driver.Standing // the answer

	inHead, inLine, held, found bool // what the last batch has seen of it

	// heldToken is the token under which the claim was last seen to hold; 0 if it was
	// not. A hold keeps its token. A row with another token was left by an Enter that
	// was sent before the hold was broken and arrived after: the hold itself has ended,
	// and another claim may have held the name since.
	heldToken int64
	replaced  bool // such a row was found

	timedOut bool // the last beat waited for its row until its time was over
}

func (p *beatEntry) isAnswered() bool { return p.out.Valid != 0 || p.out.Gone }

// isSame reports whether token is the hold's own, and remembers if it is not.
func (p *beatEntry) isSame(token int64) bool {
	p.replaced = p.replaced || p.heldToken != 0 && token != p.heldToken
	return !p.replaced
}

// seenInHead stores that the claim is in the head row.
func (p *beatEntry) seenInHead(token int64) {
	if p.isSame(token) {
		p.inHead, p.seen = true, location{token: token, inHead: true}
	}
}

// seenInLine stores that the claim is in the claim table.
func (p *beatEntry) seenInLine(held int64) {
	p.inLine, p.held = true, held != 0
	p.seen.inHead, p.seen.waiting = false, held == 0
}

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
	b := sqlstore.Batch{Beat: true, Steps: s.beatClaims(claims...)}
	b.Steps = append(b.Steps, s.beatHolds(holds...)...)
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
		b.Steps = append(b.Steps, s.beatClaims(p)...)
		if p.claim.Exclusive() {
			b.Steps = append(b.Steps, s.beatHolds(p)...)
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

// beatHolds returns the steps that prolong claims in the head row.
func (s *session) beatHolds(all ...*beatEntry) []sqlstore.Step {
	return s.beatSteps(all, s.e.q.BeatHolds, s.e.q.BeatHold, (*beatEntry).seenInHead)
}

// beatClaims returns the steps that prolong claims in the claim table.
func (s *session) beatClaims(all ...*beatEntry) []sqlstore.Step {
	return s.beatSteps(all, s.e.q.BeatClaims, s.e.q.BeatClaim, (*beatEntry).seenInLine)
}

// beatSteps returns the steps that prolong claims: one for all, where the dialect has such
// a statement, or one for each. seen is told what the row of a claim says.
func (s *session) beatSteps(all []*beatEntry, many, one *sqlstore.Statement, seen func(*beatEntry, int64)) []sqlstore.Step {
	if many.Empty() || len(all) < 2 {
		steps := make([]sqlstore.Step, len(all))
		for i, p := range all {
			steps[i] = beatStep(p, one, seen)
		}
		return steps
	}
	a := &sqlstore.Args{List: make([]*sqlstore.Args, len(all))}
	a.SetDuration(sqlstore.TTL, s.ttl)
	byID := make(map[string]*beatEntry, len(all))
	for i, p := range all {
		p.args.Num[sqlstore.Token] = p.seen.token
		a.List[i], byID[p.claim.ID] = p.args, p
	}
	return []sqlstore.Step{{Statement: many, Args: a, Row: func(r sqlstore.Row) error {
		var id string
		var value int64
		if err := r.Scan(&id, &value); err != nil {
			return err
		}
		if p := byID[id]; p != nil {
			seen(p, value)
		}
		return nil
	}}}
}

// beatStep returns the step that prolongs one claim.
func beatStep(p *beatEntry, q *sqlstore.Statement, seen func(*beatEntry, int64)) sqlstore.Step {
	p.args.Num[sqlstore.Token] = p.seen.token
	return sqlstore.Step{Statement: q, Args: p.args, Row: func(r sqlstore.Row) error {
		var value int64
		err := r.Scan(&value)
		seen(p, value)
		return err
	}}
}
