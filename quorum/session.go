package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// session is one client's claims, with a session at every node.
type session struct {
	e     *Engine
	id    string
	ttl   time.Duration
	nodes *nodes.Sessions

	mu     sync.Mutex // guards what follows, the states in claims, and the unasked nodes of ballots
	claims map[string]*claimState
	closed bool
}

func newSession(e *Engine, o driver.SessionOptions) *session {
	return &session{e: e, id: o.ID, ttl: o.TTL, nodes: nodes.Open(e.set, o, e.repairer.Wake), claims: map[string]*claimState{}}
}

// TTL returns the TTL that the session was opened with.
func (s *session) TTL() time.Duration { return s.ttl }

// Lost returns nil: no single node can report that the quorum's session has ended.
func (s *session) Lost() <-chan struct{} { return nil }

// Close ends the sessions at the nodes, and with them all claims. It returns an error
// if fewer nodes than a majority answered.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var notEntered []driver.Claim
	for _, cs := range s.claims {
		if cs.notEntered {
			notEntered = append(notEntered, cs.atNode())
		}
	}
	s.mu.Unlock()
	s.e.sessions.Remove(s.id, s)
	return s.nodes.Close(ctx, func(ctx context.Context, at *nodes.Session) {
		for _, c := range notEntered {
			_ = at.Leave(ctx, c) // a claim that is not given back expires
		}
	})
}

var _ driver.Leaver = (*session)(nil)
