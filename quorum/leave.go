package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// Once a majority has answered, the claim is given back. The other nodes get as long
// again to answer, within these bounds: two readers that leave at once would otherwise
// each be gone from a majority, and a writer that tries next would find one reader at
// one node and the other at another.
const (
	minGrace = restDelay
	maxGrace = 20 * time.Millisecond
)

// Leave gives the claim back at every node that was asked for it, also at those that
// did not grant it, and returns soon after no majority can hold it.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cs, held := s.stateToLeave(c)
	if cs == nil {
		return driver.ErrGone
	}
	l := &leaving{answers: make(chan nodeAnswer, len(s.e.set.Nodes)), errs: make([]error, len(s.e.set.Nodes)), majority: s.e.set.Majority}
	if !s.leaveNodes(cs, l.ask) {
		return driver.ErrGone
	}
	if err := l.wait(ctx); err != nil {
		return err
	}
	switch {
	case l.ended+l.gone < l.majority:
		return s.e.set.TooFew(l.ended+l.gone, l.errs)
	case l.ended == 0, held && l.gone > len(l.errs)-l.majority: // no majority can have held it any more
		return driver.ErrGone
	}
	return nil
}

// LeaveAll leaves all claims at once: a node's client sends together what is waiting.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	var all sync.WaitGroup
	for i, c := range cs {
		all.Go(func() { out[i] = s.Leave(ctx, c) })
	}
	all.Wait()
}

// stateToLeave returns the state of a claim that is to be left, and whether the claim
// is held. It returns nil if the session has a later Try.
func (s *session) stateToLeave(c driver.Claim) (cs *claimState, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs = s.claims[c.ID]
	if cs == nil {
		cs = s.newState(c)
		cs.notEntered = true
		s.claims[c.ID] = cs
	}
	if cs.claim.Try > c.Try {
		return nil, false
	}
	return cs, cs.token != 0
}

// A leaving is the nodes' answers to one Leave.
type leaving struct {
	answers     chan nodeAnswer
	errs        []error // by node
	majority    int
	asked       int
	ended, gone int // nodes; a node that was not asked counts as gone
}

type nodeAnswer struct {
	node int
	err  error
}

// ask records that a node is asked, and returns the function that receives its answer.
func (l *leaving) ask(node int) func(error) {
	l.asked++
	l.errs[node] = nodes.ErrPending
	return func(err error) { l.answers <- nodeAnswer{node, err} }
}

// wait counts answers until all nodes have answered, or a majority has and the time
// that the others get is over.
func (l *leaving) wait(ctx context.Context) error {
	sent := time.Now()
	l.gone = len(l.errs) - l.asked
	return nodes.Gather(ctx, l.answers, l.asked, func(a nodeAnswer) time.Duration {
		l.errs[a.node] = a.err
		if a.err == nil {
			l.ended++
		} else if errors.Is(a.err, driver.ErrGone) {
			l.gone++
		}
		if l.ended+l.gone < l.majority {
			return nodes.UntilAll
		}
		return min(time.Since(sent)+minGrace, maxGrace)
	})
}
