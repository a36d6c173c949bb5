package memlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Voter = (*session)(nil)

var errMaxToken = errors.New("memlock: token out of range")

// Enlist makes the session one of a quorum.
func (s *session) Enlist(ctx context.Context, list string) (is driver.Membership, err error) {
	err = s.do(ctx, func(now time.Time) error {
		m := &s.engine.membership
		if m.list != "" && m.list != list {
			return fmt.Errorf("memlock: this node serves another quorum: %w", driver.ErrDenied)
		}
		if !m.asked {
			m.asked, m.since = true, now
		}
		s.enlists = enlistment{enlisted: true, list: list, life: m.life, epoch: m.epoch}
		is = driver.Membership{Votes: m.votes, Store: fmt.Sprintf("%p", s.engine)}
		if m.votes {
			return nil
		}
		is.New, is.Since, is.Age = true, now.Sub(m.since), now.Sub(m.since)
		if m.life == 0 { // it has never forgotten anything
			is.Age = math.MaxInt64
		}
		return nil
	})
	return is, err
}

// Confirm raises the mark if the grant still stands.
func (s *session) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (confirmed bool, err error) {
	if token >= 1<<55 {
		return false, errMaxToken
	}
	err = s.do(ctx, func(now time.Time) error {
		e := s.engine
		if !e.membership.accepts(s.enlists) {
			return driver.ErrNoVote
		}
		l, i := s.findLocked(c, now)
		if i < 0 {
			return nil
		}
		p := &l.claims[i].State
		known := p.token == token // minted here for this claim, or confirmed before
		confirmed = p.held && p.granted == granted && p.epoch == e.membership.epoch &&
			(known || c.Exclusive() || token > e.last)
		if confirmed {
			e.last, p.token = max(e.last, token), token
		}
		return nil
	})
	return confirmed, err
}

// Mark returns the highest token and the epoch.
func (s *session) Mark(ctx context.Context) (high, epoch uint64, err error) {
	err = s.do(ctx, func(time.Time) error {
		high, epoch = s.engine.last, s.engine.membership.epoch
		return nil
	})
	return high, epoch, err
}

// Rejoin raises mark and epoch and lets the engine vote.
func (s *session) Rejoin(ctx context.Context, high, epoch uint64) error {
	return s.do(ctx, func(now time.Time) error {
		e, m, v := s.engine, &s.engine.membership, &s.enlists
		if !v.enlisted || m.list != "" && m.list != v.list || m.life != v.life || m.epoch != v.epoch || m.epoch >= epoch {
			return driver.ErrConflict
		}
		e.last = max(e.last, high)
		if !m.votes { // what was lost was below the clock
			e.last = max(e.last, uint64(now.UnixMicro()))
		}
		m.list, m.epoch, m.votes, v.epoch = v.list, epoch, true, epoch
		return nil
	})
}

// Forget loses everything but the sessions, as a store does that is restarted
// without its data. It is there to test what stands on this engine.
func (e *Engine) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines.clear()
	clear(e.records.byKey)
	e.last = 0
	e.membership = membership{life: e.membership.life + 1}
}

// StepClock sets the engine's clock forward, or back, as an operator may do with that of a
// server. It is there to test what stands on this engine.
func (e *Engine) StepClock(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead += d
}

// Votes reports whether the engine votes in a quorum, for tests.
func (e *Engine) Votes() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.membership.votes
}
