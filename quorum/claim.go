package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

var errUnclear = errors.New("quorum: an earlier call may yet arrive")

// A claimState is what a session knows of one of its claims. It outlives the claim
// until no call about it is in flight: at each node calls about a claim follow one
// another, so that a Leave neither overtakes the Enter that it undoes nor arrives
// after a later Enter of the same Try.
type claimState struct {
	claim      driver.Claim
	token      uint64          // once held
	granted    []uint64        // by node: the token of its last grant; 0: none
	confirming []uint64        // tokens that nodes were asked to confirm and may report since
	lastCall   []chan struct{} // by node: closed when the last call has returned; nil: none was made
	unclear    []bool          // by node: a call failed, and may arrive yet; shared by the states of one Try
	inFlight   int             // calls
	rest       canceler        // will ask the remaining nodes; nil: all were asked, or will not be
	left       bool
	notEntered bool // this session leaves it and never entered it: any node may have it
}

// A canceler is the ballot of a claim, as far as leaving the claim has to end it.
type canceler interface{ cancelLocked() }

// atNode is the claim as it is sent to the nodes, without a proposal from earlier.
func (cs *claimState) atNode() driver.Claim {
	c := cs.claim
	c.Propose = 0
	return c
}

// endLocked records that the claim was left or replaced: no further node is asked.
func (cs *claimState) endLocked() {
	cs.left = true
	if cs.rest != nil {
		cs.rest.cancelLocked()
	}
}

// stateOf returns the state of c, a new one for a later Try and for a claim that was
// left. It returns nil if the session has a later Try.
func (s *session) stateOf(c driver.Claim) *claimState {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := s.claims[c.ID]
	switch {
	case cs == nil || cs.left || cs.claim.Try < c.Try:
		fresh := s.newState(c)
		if cs != nil {
			copy(fresh.lastCall, cs.lastCall)
			if cs.claim.Try == c.Try {
				fresh.unclear = cs.unclear
			}
			cs.endLocked()
		}
		s.claims[c.ID] = fresh
		return fresh
	case cs.claim.Try > c.Try:
		return nil
	}
	return cs
}

func (s *session) newState(c driver.Claim) *claimState {
	n := len(s.e.set.Nodes)
	return &claimState{claim: c, granted: make([]uint64, n), lastCall: make([]chan struct{}, n), unclear: make([]bool, n)}
}

// findLocked returns the state of exactly this Try of c, nil if there is none.
func (s *session) findLocked(c driver.Claim) *claimState {
	if cs := s.claims[c.ID]; cs != nil && cs.claim.Try == c.Try {
		return cs
	}
	return nil
}

// forgetLocked deletes the state of a claim that was left, unless calls about it are in
// flight or the claim was entered again.
func (s *session) forgetLocked(cs *claimState) {
	if cs.left && cs.inFlight == 0 && s.claims[cs.claim.ID] == cs {
		delete(s.claims, cs.claim.ID)
	}
}

// callLocked makes a call about a claim at node i, after the previous one about it has
// returned. The session must not be closed.
func (s *session) callLocked(r *nodes.Round, i int, cs *claimState, f func(context.Context, *nodes.Session) error, done func(error)) {
	previous, returned := cs.lastCall[i], make(chan struct{})
	cs.lastCall[i] = returned
	cs.inFlight++
	s.nodes.Go(r, i, func(ctx context.Context, at *nodes.Session) error {
		if previous != nil {
			select {
			case <-previous:
			case <-ctx.Done():
			}
		}
		return f(ctx, at)
	}, func(err error) {
		if err != nil && !errors.Is(err, driver.ErrGone) {
			s.mu.Lock()
			cs.unclear[i] = true
			s.mu.Unlock()
		}
		done(err)
		close(returned)
		s.mu.Lock()
		defer s.mu.Unlock()
		cs.inFlight--
		s.forgetLocked(cs)
	})
}

// enterLocked enters a claim at one node, which sends its vote to votes.
func (s *session) enterLocked(r *nodes.Round, i int, cs *claimState, c driver.Claim, votes chan<- vote) {
	var st driver.Standing
	var sent time.Time
	s.callLocked(r, i, cs, func(ctx context.Context, at *nodes.Session) (err error) {
		if c.Queue && s.isUnclear(cs, i) {
			return errUnclear
		}
		sent = time.Now()
		st, err = at.Enter(ctx, c)
		if err == nil && s.ownLeaves(ctx, i, st) {
			st, err = at.Enter(ctx, c)
		}
		return at.Check(err)
	}, func(err error) {
		v := vote{node: i, st: st, err: err, sent: sent}
		if v.granted() {
			s.mu.Lock()
			v.same = cs.granted[i] == st.Token
			cs.granted[i] = st.Token
			s.mu.Unlock()
		}
		votes <- v
	})
}

// isUnclear reports whether an earlier call about this Try may yet arrive at node i: a
// Leave would end what is entered now.
func (s *session) isUnclear(cs *claimState, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cs.unclear[i]
}

// ownLeaves reports whether a claim was refused because of another one of this session
// that is being left at node i, and has left by now. A ballot that is decided leaves
// such claims behind: their Enter may still be on its way to a node.
func (s *session) ownLeaves(ctx context.Context, i int, st driver.Standing) bool {
	if st.Held || st.Holder == nil {
		return false
	}
	s.mu.Lock()
	own := s.claims[st.Holder.ID]
	if own == nil || !own.left || own.lastCall[i] == nil {
		s.mu.Unlock()
		return false
	}
	returned := own.lastCall[i]
	s.mu.Unlock()
	select {
	case <-returned:
		return true
	case <-ctx.Done():
		return false
	}
}

// leaveNodes gives a claim back at every node that was asked for it and for which
// done returns a function, which then receives the error. The claim is marked as left
// in the same step, so that no further node is asked for it. It reports false if the
// session is closed.
func (s *session) leaveNodes(cs *claimState, done func(i int) func(error)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	cs.endLocked()
	c := cs.atNode()
	r := s.nodes.Round(len(cs.lastCall))
	for i, called := range cs.lastCall {
		var report func(error)
		if cs.notEntered || called != nil {
			report = done(i)
		}
		if report == nil {
			r.Done()
			continue
		}
		s.callLocked(r, i, cs, func(ctx context.Context, at *nodes.Session) error { return at.Leave(ctx, c) }, report)
	}
	s.forgetLocked(cs)
	return true
}

// leaveNode gives a claim back at one node, and may ask for it there again.
func (s *session) leaveNode(cs *claimState, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || cs.left {
		return
	}
	c := cs.atNode()
	s.callLocked(s.nodes.Round(1), i, cs, func(ctx context.Context, at *nodes.Session) error { return at.Leave(ctx, c) }, func(error) {})
}
