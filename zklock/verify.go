package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A verification sets a watch on the node of each claim that has none. More claims can be
// entered between two beats than one beat has time for: so a verification continues when
// the beat that began it has to return, and the next beat joins it.
type verification struct {
	size int
	done chan struct{}
	err  error // written before done is closed
}

const (
	largeVerification = 4 * maxParallel // the size from which new claims wait for a verification
	verifyParallel    = 8 * maxParallel // reads under way: with fewer, ten thousand new claims of a distant client take longer than a TTL
)

// waitForVerification waits while many claims are verified: they have less time left than a
// claim that is about to enter, and entering claims would take most of the servers' time.
func (s *session) waitForVerification(ctx context.Context) error {
	s.mu.Lock()
	v := s.round
	s.mu.Unlock()
	if v == nil || v.size < largeVerification {
		return nil
	}
	select {
	case <-v.done:
		return nil
	case <-ctx.Done():
		return zkstore.ContextError(ctx)
	}
}

// verifyAll returns when all claims are verified, one cannot be, or ctx ends.
func (s *session) verifyAll(ctx context.Context, all []*claimState) error {
	for {
		v, begun, err := s.joinVerification(all)
		if v == nil || err != nil {
			return err
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			return zkstore.ContextError(ctx)
		}
		if begun {
			return v.err
		}
	}
}

// joinVerification returns the verification under way, or begins one with those claims that
// need it; nil: none does.
func (s *session) joinVerification(all []*claimState) (v *verification, begun bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []*claimState
	for _, cs := range all {
		if s.claims[cs.claim.ID] == cs && cs.node != "" && !cs.lostNode && !cs.verifiedLocked() {
			rest = append(rest, cs)
		}
	}
	if len(rest) == 0 {
		return nil, false, nil
	}
	if s.round != nil {
		return s.round, false, nil
	}
	v = &verification{size: len(rest), done: make(chan struct{})}
	if err := s.e.sessions.Go(func(ctx context.Context) { s.runVerification(ctx, v, rest) }); err != nil {
		return nil, false, err
	}
	s.round = v
	return v, true, nil
}

func (s *session) runVerification(ctx context.Context, v *verification, rest []*claimState) {
	errs := make([]error, len(rest))
	err := forEachOf(ctx, len(rest), verifyParallel, func(ctx context.Context, i int) error {
		if err := s.begin(ctx); err != nil {
			return err
		}
		err := s.verify(ctx, rest[i])
		if err != nil && !zkstore.OutcomeUnknown(err) || errors.Is(err, errForeign) {
			errs[i], err = err, nil // what is wrong with one line or node says nothing about the others
		}
		return err
	})
	v.err = driver.Join(append(errs, err)...)
	s.mu.Lock()
	s.round = nil
	s.mu.Unlock()
	close(v.done)
}

// verifiedLocked reports whether a claim's node was there when the last event arrived, and
// nothing else has to be read.
func (cs *claimState) verifiedLocked() bool {
	return cs.ownWatch != nil && !cs.ownWatch.HasFired() && !cs.heldUnverified
}

// verify reads a claim's node, and sets the watch that beats rely on.
func (s *session) verify(ctx context.Context, cs *claimState) error {
	s.mu.Lock()
	own, heldUnverified, token := cs.node, cs.heldUnverified, cs.token
	path := s.e.linePath(cs.claim.Name) + "/" + own
	s.mu.Unlock()
	if own == "" {
		return nil // it enters anew
	}
	w, err := s.zs.Watch(ctx, zkstore.WatchKey{Path: path})
	gone := errors.Is(err, zk.ErrNoNode)
	if err != nil && !gone {
		return err
	}
	// The path is unique; the node's own stat proves it.
	gone = gone || uint64(w.Stat.Czxid) != token || uint64(w.Stat.EphemeralOwner) != s.zs.ID
	if heldUnverified && !gone {
		// The claim holds because a node was written to. If that was not its owner
		// leaving, the line shows it.
		st, err := s.refresh(ctx, cs)
		if err != nil {
			return err
		}
		gone = !st.Held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs.node == own { // or it has entered anew since
		cs.ownWatch, cs.lostNode = w, gone
	}
	return nil
}
