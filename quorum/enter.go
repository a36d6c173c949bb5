package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// Enter asks the nodes and returns the answer of a majority. What the other nodes
// grant later is kept if the claim is held, and undone if it is not.
//
// Where the votes are split no one holds the name: claims that are being given back, or
// rivals that fail as well, are in the way at some nodes; nodes are in different epochs; or
// they did not confirm a token. The answer says so, since a name that is free must not be
// called held.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	if err := cmp.Or(s.supports(c), s.e.set.SharedStore()); err != nil {
		return driver.Standing{}, err
	}
	cs := s.stateOf(c)
	if cs == nil {
		return driver.Standing{Gone: true}, nil
	}
	sent := time.Now()
	b, err := s.runBallot(ctx, cs)
	if err != nil {
		return driver.Standing{}, err
	}
	if !b.won() {
		return s.notWon(ctx, b, time.Since(sent))
	}
	token, ok, err := b.chooseToken(ctx)
	if err != nil {
		return driver.Standing{}, err
	}
	if !ok || time.Since(sent) >= s.ttl {
		// What took longer than the TTL is given back too: the next attempt must have
		// the next Try.
		s.undo(ctx, b)
		return driver.Standing{Ahead: -1, Split: true, Pause: backoff(time.Since(sent))}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.Standing{}, driver.ErrGone
	}
	cs.token = token
	return driver.Standing{Held: true, Token: token, Valid: s.ttl}, nil
}

// supports refuses claims that a majority cannot decide.
func (s *session) supports(c driver.Claim) error {
	switch {
	case c.Queue:
		return fmt.Errorf("quorum: a quorum has no line: %w", driver.ErrUnsupported)
	case c.Limit != 1 && c.Limit != driver.All:
		return fmt.Errorf("quorum: a majority cannot count to %d: %w", c.Limit, driver.ErrUnsupported)
	case !c.Exclusive() && !s.e.features.Shared:
		return fmt.Errorf("quorum: a node has no shared locks: %w", driver.ErrUnsupported)
	case c.Limit == driver.All && c.Need != 1 && c.Need != driver.All:
		return fmt.Errorf("quorum: a majority cannot count: %w", driver.ErrUnsupported)
	}
	return nil
}

// notWon answers for a claim that no majority granted. If rivals hold the name, it
// undoes the grants; if nodes failed, the outcome is unknown and the caller repeats.
func (s *session) notWon(ctx context.Context, b *ballot, took time.Duration) (driver.Standing, error) {
	if !b.refused() {
		errs := make([]error, b.nodes)
		for _, v := range b.all {
			errs[v.node] = v.err
		}
		err := s.e.set.TooFew(b.answered(), errs)
		if !errors.Is(err, driver.ErrUnreachable) {
			s.undo(ctx, b) // the caller does not repeat what is refused
		}
		return driver.Standing{}, err
	}
	s.undo(ctx, b)
	st := b.refusal()
	if st.Split = b.split(); st.Split || b.grants() > 0 && b.refusals() < b.majority { // otherwise one rival holds the name, and its departure is reported
		st.Pause = backoff(took)
	}
	if b.count(vote.granted) > b.grants() { // some in an earlier epoch
		s.e.repairer.Wake()
	}
	return st, nil
}

// undo gives back a claim that is not held. It waits for the nodes that granted, and
// not for those whose answer is unknown.
func (s *session) undo(ctx context.Context, b *ballot) {
	answers := make(chan struct{}, b.nodes)
	waiting := 0
	s.leaveNodes(b.cs, func(i int) func(error) {
		v, voted := b.of(i)
		switch {
		case voted && v.granted():
			waiting++
			return func(error) { answers <- struct{}{} }
		case voted && v.refused():
			return nil // the node has nothing to give back
		}
		return func(error) {}
	})
	_ = nodes.Gather(ctx, answers, waiting, func(struct{}) time.Duration { return nodes.UntilAll })
}

// backoff returns how long a claim waits before its next attempt when its rivals may have
// failed as well: a random time, and a multiple of what this one took, since an attempt
// that takes longer collides with more rivals.
func backoff(took time.Duration) time.Duration {
	return time.Millisecond/2 + jitter.N(min(2*max(took, time.Millisecond), maxPause))
}
