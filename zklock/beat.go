package zklock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// Beat is one write for all claims. That each claim is still in its line is known by a
// watch on its node, set by the first beat that names it: the reply to the write arrives
// after the events of everything that happened before.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	sent := driverkit.Now()
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.barrier(ctx); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.conn.Reconnect() // the server is stuck, or cut off from its leader: another may not be
		}
		return err
	}
	valid := min(s.ttl, s.zs.ValidUntil().Sub(sent))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrGone
	}
	s.assumedFrom = max(s.assumedFrom, sent)
	s.expiryTimer.Reset(s.ttl)
	states := make([]*claimState, len(live))
	for i, c := range live {
		if cs := s.claims[c.ID]; cs != nil && cs.claim.Try == c.Try && cs.node != "" {
			states[i] = cs
		} else {
			out[i] = driver.Standing{Gone: true}
		}
	}
	s.mu.Unlock()
	if valid <= 0 {
		return zkstore.Unreachable(errors.New("the answer came too late"))
	}
	err := s.verifyAll(ctx, slices.DeleteFunc(slices.Clone(states), func(cs *claimState) bool { return cs == nil }))
	for i, cs := range states {
		if cs != nil {
			out[i] = s.beatAnswer(cs, live[i], valid)
		}
	}
	return err
}

// beatAnswer is what a beat says about a claim: nothing, unless the claim is verified.
func (s *session) beatAnswer(cs *claimState, c driver.Claim, valid time.Duration) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.claims[c.ID] != cs, cs.lostNode:
		return driver.Standing{Gone: true}
	case cs.claim.Try != c.Try, !cs.verifiedLocked():
		return driver.Standing{}
	case !cs.held:
		return driver.Standing{Ahead: -1, Valid: valid}
	}
	return driver.Standing{Held: true, Token: cs.token, Ahead: cs.ahead, Valid: valid}
}
