package memlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// session is one client's claims. Its life is theirs: each claim has an expiry
// of its own, set by Enter and moved by Beat.
type session struct {
	engine *Engine
	id     string
	ttl    time.Duration
	closed bool // guarded by engine.mu
	vote   vote // guarded by engine.mu
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

func (s *session) endedLocked() bool { return s.closed || s.engine.closed }

func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return driver.Standing{}, driver.ErrGone
	}
	return s.enterLocked(c, time.Now())
}

func (s *session) enterLocked(c driver.Claim, now time.Time) (driver.Standing, error) {
	e := s.engine
	if !s.votesLocked() {
		return driver.Standing{}, driver.ErrNoVote
	}
	l := e.lines[c.Name]
	if l == nil {
		l = &line{}
	} else {
		e.settleLocked(c.Name, l, now)
	}
	if i := l.find(c.ID); i >= 0 {
		switch known := l.spots[i]; {
		case known.claim.Try == c.Try:
			known.until = now.Add(s.ttl)
			st := l.standing(i, now, s.ttl)
			if s.vote.enlisted && st.Held {
				st.Token = known.granted // what Confirm is about
			}
			return st, nil
		case known.claim.Try > c.Try: // delivered late; nobody reads this answer
			return driver.Standing{Gone: true}, nil
		default:
			e.endLocked(c.Name, l, i, now)
		}
	}
	for _, o := range l.spots {
		if !c.Exclusive() && !o.claim.Exclusive() && o.claim.Limit != c.Limit {
			return driver.Standing{}, driver.ErrLimit
		}
	}
	before := e.last
	token := s.mintLocked(c, now)
	l.spots = append(l.spots, &spot{claim: c, session: s, token: token, granted: token, epoch: e.roll.epoch, since: now, until: now.Add(s.ttl)})
	i := len(l.spots) - 1
	e.lines[c.Name] = l
	e.settleLocked(c.Name, l, now)
	st := l.standing(i, now, s.ttl)
	if !st.Held && !c.Queue {
		l.spots = l.spots[:i]
		st.Valid = 0
		e.last = before // nobody has seen it; a quorum's nodes agree more often when they do not count the refused
	}
	return st, nil
}

// EnterAll enters every claim in one step; if one that does not queue cannot be
// held, or one is refused, none stays.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return nil, driver.ErrGone
	}
	now := time.Now()
	all := make([]driver.Standing, len(cs))
	for i, c := range cs {
		st, err := s.enterLocked(c, now)
		all[i] = st
		if err == nil && (st.Held || c.Queue) {
			continue
		}
		for _, in := range cs[:i] {
			_ = s.leaveLocked(in, now) // entered just above: it is there
		}
		for j := range cs[:i] {
			all[j].Held, all[j].Token, all[j].Valid = false, 0, 0
		}
		return all, err
	}
	return all, nil
}

func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	st, turn, err := s.look(c)
	if err != nil || st.Held || st.Gone {
		return st, err
	}
	timer := time.NewTimer(st.Pause)
	defer timer.Stop()
	select {
	case <-turn:
	case <-timer.C:
	case <-ctx.Done():
		return driver.Standing{}, ctx.Err()
	}
	st, _, err = s.look(c)
	return st, err
}

// look answers how c stands and, where it waits, what tells of its turn. The
// channel is made under the same lock as the look, so no turn falls between.
func (s *session) look(c driver.Claim) (driver.Standing, <-chan struct{}, error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return driver.Standing{}, nil, driver.ErrGone
	}
	now := time.Now()
	l, i := s.findLocked(c, now)
	if i < 0 || l.spots[i].claim.Try != c.Try {
		return driver.Standing{Gone: true}, nil, nil
	}
	spot := l.spots[i]
	if spot.turn == nil && !spot.held {
		spot.turn = make(chan struct{}, 1)
	}
	return l.standing(i, now, 0), spot.turn, nil
}

func (s *session) findLocked(c driver.Claim, now time.Time) (*line, int) {
	l := s.engine.lines[c.Name]
	if l == nil {
		return nil, -1
	}
	s.engine.settleLocked(c.Name, l, now)
	return l, l.find(c.ID)
}

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.endedLocked() {
		return driver.ErrGone
	}
	return s.leaveLocked(c, time.Now())
}

func (s *session) leaveLocked(c driver.Claim, now time.Time) error {
	l, i := s.findLocked(c, now)
	if i < 0 || l.spots[i].claim.Try > c.Try {
		return driver.ErrGone
	}
	s.engine.endLocked(c.Name, l, i, now)
	return nil
}

func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.endedLocked() {
		return driver.ErrGone
	}
	if !s.votesLocked() {
		return driver.ErrNoVote
	}
	now := time.Now()
	for n, c := range live {
		l, i := s.findLocked(c, now)
		if i < 0 || l.spots[i].claim.Try != c.Try {
			out[n] = driver.Standing{Gone: true}
			continue
		}
		spot := l.spots[i]
		spot.until = now.Add(s.ttl)
		out[n] = driver.Standing{Held: spot.held, Token: spot.shownToken(), Ahead: i, Valid: s.ttl}
	}
	return nil
}

func (s *session) Close(context.Context) error {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return nil
	}
	s.closed = true
	now := time.Now()
	for name, l := range e.lines {
		e.settleLocked(name, l, now) // first: a dead claim that goes while we count would shift the rest
		for i := len(l.spots) - 1; i >= 0; i-- {
			if l.spots[i].session == s {
				e.endLocked(name, l, i, now)
			}
		}
	}
	return nil
}

var _ driver.Multi = (*session)(nil)
