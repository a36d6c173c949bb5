package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// A round of verifying sets a watch on the node of each claim that has none. Many can
// come between two beats, more than can be asked for in the time of one: so a round
// goes on when the beat that began it has to come back, and the next joins it.
type round struct {
	size int
	done chan struct{}
	err  error // written before done is closed
}

// crowd is how large a round is that newcomers wait for.
const crowd = 4 * maxAbreast

// giveWay waits while many claims are verified: they have less time than one that is
// about to come, and those who come would take most of what the servers can do.
func (s *session) giveWay(ctx context.Context) error {
	s.mu.Lock()
	r := s.round
	s.mu.Unlock()
	if r == nil || r.size < crowd {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return unanswered(ctx)
	}
}

// verifyAll comes back when all claims are verified, one cannot be, or ctx ends.
func (s *session) verifyAll(ctx context.Context, all []*spot) error {
	for {
		r, mine, err := s.verifying(all)
		if r == nil || err != nil {
			return err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return unanswered(ctx)
		}
		if mine {
			return r.err
		}
	}
}

// verifying returns the round that is under way, or begins one with those of all that
// need it; nil: none does.
func (s *session) verifying(all []*spot) (r *round, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []*spot
	for _, sp := range all {
		if s.spots[sp.claim.ID] == sp && sp.node != "" && !sp.broken && !sp.verifiedLocked() {
			rest = append(rest, sp)
		}
	}
	if len(rest) == 0 {
		return nil, false, nil
	}
	if s.round != nil {
		return s.round, false, nil
	}
	if !s.e.begin() {
		return nil, false, errClosed
	}
	s.round = &round{size: len(rest), done: make(chan struct{})}
	go s.verifyRound(s.round, rest) // ends with the connection or the engine, whose Close waits for it
	return s.round, true, nil
}

func (s *session) verifyRound(r *round, rest []*spot) {
	defer s.e.tasks.Done()
	r.err = each(s.e.begun, len(rest), func(ctx context.Context, i int) error {
		if err := s.begin(ctx); err != nil {
			return err
		}
		return s.verify(ctx, rest[i])
	})
	s.mu.Lock()
	s.round = nil
	s.mu.Unlock()
	close(r.done)
}

// verifiedLocked reports whether a claim's node is there for all that was heard, and
// nothing else is to be looked at.
func (sp *spot) verifiedLocked() bool { return sp.own != nil && !sp.own.over() && !sp.hinted }

// verify asks for a claim's node, and sets the watch by which beats know.
func (s *session) verify(ctx context.Context, sp *spot) error {
	s.mu.Lock()
	node, hinted, token := sp.node, sp.hinted, sp.token
	path := s.e.linePath(sp.claim.Name) + "/" + node
	s.mu.Unlock()
	if node == "" {
		return nil // it is being entered anew
	}
	own, err := s.l.watch(ctx, s.f, watchKey{path: path})
	gone := errors.Is(err, zk.ErrNoNode)
	if err != nil && !gone {
		return err
	}
	// Its path is its own; but what stands there says so itself.
	gone = gone || uint64(own.stat.Czxid) != token || uint64(own.stat.EphemeralOwner) != s.f.id
	if hinted && !gone {
		// It holds because a node was written to. If that was somebody else, and not
		// its owner leaving, this is where it comes out.
		st, err := s.look(ctx, sp)
		if err != nil {
			return err
		}
		gone = !st.Held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp.node == node { // or it has entered anew since
		sp.own, sp.broken = own, gone
	}
	return nil
}
