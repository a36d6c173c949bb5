package kvline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func (s *session) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	if err := s.begin(ctx); err != nil {
		return st, err
	}
	latest, _ := s.claims.Current(c.ID)
	p, before, err := s.claims.Add(ctx, c, claimState{written: s.state(latest).written})
	if err != nil {
		return st, err
	}
	generation, _, _ := s.e.turns.State()
	p.Waiter.Current(generation)
	trust := before == nil || s.fresh(c)
	s.stands(c, 0, st) // until it is answered, what the line has of it is right
	sent, tries, to := false, 0, ""
	earlier := s.state(c).written
	writes := func(is bool) { // now: what this call has written before was refused
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.written = earlier || is })
	}
	change := func(l *line, now time.Time) (err error) {
		writes(false)
		if to = s.e.toAsk(*l, tries, now); to != "" && c.Queue && l.find(c.ID) < 0 && !l.refuses(c.Need, c.Limit) {
			return errAsk
		}
		tries++
		st, err = s.enter(l, c, now)
		sent = sent || err == nil
		writes(err == nil)
		return err
	}
	var (
		l   line
		now time.Time
	)
	for q := s.state(c).asked; ; { // of an earlier call, or nil
		if q == nil {
			if l, now, err = s.enterLine(ctx, c.Name, trust, change); !errors.Is(err, errAsk) {
				break
			}
			q = s.ask(c, s.claim(c, now), to, l, now)
		}
		at, entered := s.entered(ctx, c, q)
		switch {
		case entered:
			return s.stays(ctx, c, s.answered(c, q, at))
		case s.claims.Closed():
			return st, driver.ErrGone
		case ctx.Err() != nil: // it may be there later
			return st, ctx.Err()
		}
		q, sent, tries = nil, true, notNow
	}
	switch {
	case err != nil && (!sent || errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrLimit)): // nothing was written
		s.claims.Refused(p, before)
		return st, err
	case err != nil: // it may be there
		return st, err
	case st.Gone:
		return st, nil
	}
	i := l.find(c.ID)
	if i < 0 { // not held, and left no trace
		s.claims.End(c)
		return st, nil
	}
	st = s.e.standing(l, i, c.Name, now)
	s.stands(c, l[i].Token, st)
	if n := len(l); s.e.judge(ctx, &l, now) == nil && len(l) < n { // it was entered into a line that was not read
		if is, err := s.Look(ctx, c); err == nil && !is.Gone {
			st = is
		}
	}
	return s.stays(ctx, c, st)
}

// answered returns how a claim stands that another engine has entered.
func (s *session) answered(c driver.Claim, q *question, at place) (st driver.Standing) {
	if at.Held {
		st.Held, st.Token = true, at.Token
	} else {
		l := append(slices.Clone(q.line), q.claim)
		st = s.e.standing(l, len(l)-1, c.Name, time.Unix(0, q.claim.Since))
	}
	st.Ahead = at.Ahead
	s.stands(c, at.Token, st)
	return st
}

// enterLine changes the line for Enter. Calls of one engine would only refuse each other;
// Beat and Leave do not wait here.
func (s *session) enterLine(ctx context.Context, name string, trust bool, change func(l *line, now time.Time) error) (line, time.Time, error) {
	if err := s.e.entering.begin(ctx, name); err != nil {
		return nil, time.Time{}, err
	}
	defer s.e.entering.end(name)
	return s.e.update(ctx, name, mode{trust: trust, judged: true}, change)
}

// stays answers for a claim that was entered, unless Close may have looked before that.
func (s *session) stays(ctx context.Context, c driver.Claim, st driver.Standing) (driver.Standing, error) {
	if s.claims.Closed() {
		_ = s.leave(ctx, c) // what stays expires
		return driver.Standing{}, driver.ErrGone
	}
	return st, nil
}

// enter puts a claim into its line, or finds it there. What it answers counts where the
// claim is not in the line afterwards.
func (s *session) enter(l *line, c driver.Claim, now time.Time) (driver.Standing, error) {
	i := l.find(c.ID)
	switch {
	case i >= 0 && (*l)[i].Try > c.Try: // delivered late
		return driver.Standing{Gone: true}, nil
	case i >= 0 && (*l)[i].Try < c.Try:
		l.remove(i)
		i = -1
	}
	if i >= 0 {
		(*l)[i].Beat = 0 // the line is written: it may have been an old one
		return driver.Standing{}, nil
	}
	if l.refuses(c.Need, c.Limit) {
		return driver.Standing{}, driver.ErrLimit
	}
	*l = append(*l, s.claim(c, now))
	l.grant(now)
	i = len(*l) - 1
	st := s.e.standing(*l, i, c.Name, now)
	if !st.Held && !c.Queue {
		l.remove(i)
	}
	return st, nil
}

// claim returns how c is stored.
func (s *session) claim(c driver.Claim, now time.Time) claim {
	return claim{
		ID: c.ID, Try: c.Try, Need: c.Need, Limit: c.Limit, Queue: c.Queue, Note: c.Note,
		Session: s.id, Engine: s.e.address, TTL: lineTTL(s.ttl), Since: now.UnixNano(),
	}
}
