package zklock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Beat is one write for the life of all claims. That each is still in its line is
// known by a watch on its node, set for the first beat that is asked for it: the
// answer to the write comes after the events of everything that happened before.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	sent := now()
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.witness(ctx); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.l.cut() // the server is stuck, or cut off from its leader: another may not be
		}
		return err
	}
	valid := min(s.ttl, s.until().sub(sent))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrGone
	}
	s.assumed = max(s.assumed, sent)
	s.dog.Reset(s.ttl)
	spots := make([]*spot, len(live))
	for i, c := range live {
		if sp := s.spots[c.ID]; sp != nil && sp.claim.Try == c.Try && sp.node != "" {
			spots[i] = sp
		} else {
			out[i] = driver.Standing{Gone: true}
		}
	}
	s.mu.Unlock()
	if valid <= 0 {
		return unreachable(errors.New("the answer came too late"))
	}
	err := s.verifyAll(ctx, slices.DeleteFunc(slices.Clone(spots), func(sp *spot) bool { return sp == nil }))
	for i, sp := range spots {
		if sp != nil {
			out[i] = s.answer(sp, live[i], valid)
		}
	}
	return err
}

// answer is what a beat says of a claim: nothing, unless it is verified.
func (s *session) answer(sp *spot, c driver.Claim, valid time.Duration) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.spots[c.ID] != sp, sp.broken:
		return driver.Standing{Gone: true}
	case sp.claim.Try != c.Try, !sp.verifiedLocked():
		return driver.Standing{}
	case !sp.held:
		return driver.Standing{Ahead: -1, Valid: valid}
	}
	return driver.Standing{Held: true, Token: sp.token, Ahead: sp.ahead, Valid: valid}
}
