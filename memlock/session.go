package memlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// session is one client's claims. Each claim has an expiry of its own, set by Enter and
// moved by Beat; the session lives as long as they do.
type session struct {
	engine  *Engine
	id      string
	ttl     time.Duration
	claims  *driverkit.Claims[place] // exactly those that are in a line; the State is guarded by engine.mu
	enlists enlistment               // guarded by engine.mu
}

var (
	_ driver.Multi      = (*session)(nil)
	_ driver.Leaver     = (*session)(nil)
	_ driverkit.Backend = (*session)(nil)
)

func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Lost() <-chan struct{}  { return nil }
func (s *session) Ended() <-chan struct{} { return s.claims.Ended() }

// do runs a call under the engine's mutex, unless the session has ended.
func (s *session) do(ctx context.Context, call func(now time.Time) error) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return call(s.engine.nowLocked())
}

func (s *session) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	err = s.do(ctx, func(now time.Time) (err error) {
		st, err = s.enterLocked(ctx, c, now)
		return err
	})
	return st, err
}

func (s *session) enterLocked(ctx context.Context, c driver.Claim, now time.Time) (driver.Standing, error) {
	e := s.engine
	if !e.membership.accepts(s.enlists) {
		return driver.Standing{}, driver.ErrNoVote
	}
	l := e.lines.settled(c.Name, now)
	if i := l.find(c.ID); i >= 0 {
		switch known := l.claims[i]; {
		case known.Claim.Try == c.Try:
			known.State.until = now.Add(s.ttl)
			st := l.standing(i, now, s.ttl)
			if s.enlists.enlisted && st.Held {
				st.Token = known.State.granted // the value that Confirm is called with
			}
			return st, nil
		case known.Claim.Try > c.Try: // delivered late; no one reads this answer
			return driver.Standing{Gone: true}, nil
		default:
			e.lines.end(l, i, now)
		}
	}
	for _, p := range l.claims {
		if !c.Exclusive() && !p.Claim.Exclusive() && p.Claim.Limit != c.Limit {
			return driver.Standing{}, driver.ErrLimit
		}
	}
	p, _, err := s.claims.Add(ctx, c, place{})
	if err != nil {
		return driver.Standing{}, err
	}
	p.Waiter.Current(driverkit.InProcess)
	before := e.last
	e.last = mint(e.last, c.Propose, now)
	p.State = place{
		session: s.id, claims: s.claims,
		token: e.last, granted: e.last, epoch: e.membership.epoch, since: now, until: now.Add(s.ttl),
	}
	e.lines.append(l, p, now)
	st := l.standing(len(l.claims)-1, now, s.ttl)
	p.State.inLine = s.enlists.enlisted && !st.Held
	if !st.Held && !c.Queue {
		e.lines.withdraw(l)
		st.Valid = 0
		e.last = before // its token was never visible, and a quorum's nodes agree more often without it
	}
	return st, nil
}

// EnterAll enters every claim in one step; if one that does not queue cannot be
// held, or one is refused, none stays.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) (all []driver.Standing, err error) {
	err = s.do(ctx, func(now time.Time) error {
		all = make([]driver.Standing, len(cs))
		for i, c := range cs {
			st, err := s.enterLocked(ctx, c, now)
			all[i] = st
			if err == nil && (st.Held || c.Queue) {
				continue
			}
			for j, entered := range cs[:i] {
				_ = s.leaveLocked(entered, now) // entered just above: it is there
				all[j].Held, all[j].Token, all[j].Valid = false, 0, 0
			}
			return err
		}
		return nil
	})
	return all, err
}

func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	p := s.claims.Find(c.ID, c.Try)
	if p == nil {
		return driver.Standing{Gone: true}, nil
	}
	return driverkit.Await(ctx, s, &p.Waiter, nil, c, last)
}

// Look answers how c stands.
func (s *session) Look(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	err = s.do(ctx, func(now time.Time) error {
		if l, i := s.findLocked(c, now); i < 0 {
			st = driver.Standing{Gone: true}
		} else {
			st = l.standing(i, now, 0)
		}
		return nil
	})
	return st, err
}

// findLocked returns where exactly this try of c stands; -1: nowhere.
func (s *session) findLocked(c driver.Claim, now time.Time) (*line, int) {
	l := s.engine.lines.settled(c.Name, now)
	i := l.find(c.ID)
	if i >= 0 && l.claims[i].Claim.Try != c.Try {
		return l, -1
	}
	return l, i
}

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	return s.do(ctx, func(now time.Time) error { return s.leaveLocked(c, now) })
}

func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	for i, c := range cs {
		out[i] = s.Leave(ctx, c)
	}
}

func (s *session) leaveLocked(c driver.Claim, now time.Time) error {
	l := s.engine.lines.settled(c.Name, now)
	i := l.find(c.ID)
	if i < 0 || l.claims[i].Claim.Try > c.Try {
		return driver.ErrGone
	}
	s.engine.lines.end(l, i, now)
	return nil
}

func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	return s.do(ctx, func(now time.Time) error {
		if !s.engine.membership.accepts(s.enlists) {
			return driver.ErrNoVote
		}
		for n, c := range live {
			l, i := s.findLocked(c, now)
			if i < 0 {
				out[n] = driver.Standing{Gone: true}
				continue
			}
			p := &l.claims[i].State
			p.until = now.Add(s.ttl)
			out[n] = driver.Standing{Held: p.held, Token: p.visibleToken(), Ahead: i, Valid: s.ttl}
		}
		return nil
	})
}

func (s *session) Close(context.Context) error {
	s.engine.sessions.Remove(s.id, s)
	left := s.claims.Close()
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	now := s.engine.nowLocked()
	for _, c := range left {
		_ = s.leaveLocked(c, now) // it may have expired
	}
	return nil
}
