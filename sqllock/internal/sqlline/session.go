package sqlline

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// session is one client's claims. It has no life of its own in the store: each claim
// has its expiry, set by Enter and moved by Beat.
type session struct {
	e   *Engine
	id  string
	ttl time.Duration

	mu     sync.Mutex             // guards what follows
	claims map[string]*claimState // what may be in a line: added before it is sent, removed when it has certainly ended
	closed bool

	beatFrom string // the name with which the next beat begins
	chunk    int    // how many claims a batch of a beat takes

	inflight map[*inflight]struct{} // batches that enter claims: under way, or of unknown outcome

	life   context.Context // of inflight batches
	cancel context.CancelFunc
}

// claimState is what a session knows of one claim.
type claimState struct {
	claim    driver.Claim
	seen     location
	timedOut bool        // the last beat waited for the row until its time was over
	guard    *guardState // nil until a transaction was guarded by the claim
}

// A location is where a claim was last seen, so that a beat finds it by key. It may have
// moved since.
type location struct {
	token   int64
	inHead  bool // in the head row, not in the claim table
	waiting bool // in the claim table, and not granted
}

var _ driver.Multi = (*session)(nil)

func newSession(e *Engine, o driver.SessionOptions) *session {
	s := &session{e: e, id: o.ID, ttl: o.TTL, chunk: beatChunkFirst, claims: map[string]*claimState{}, inflight: map[*inflight]struct{}{}}
	s.life, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// begin says whether a call may be sent, and adds the claims that it enters.
func (s *session) begin(ctx context.Context, enter ...driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	for _, c := range enter {
		if p := s.claims[c.ID]; p == nil || p.claim.Try < c.Try { // a late call does not hide its successor
			s.claims[c.ID] = &claimState{claim: c}
		}
	}
	return nil
}

// ended removes a claim that is certainly not in a line, unless a later try of it was
// sent meanwhile.
func (s *session) ended(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.claims[c.ID]; p != nil && p.claim.Try <= c.Try {
		delete(s.claims, c.ID)
	}
}

// saw stores where a claim was seen.
func (s *session) saw(c driver.Claim, at location) {
	s.mu.Lock()
	granted := false
	if p := s.claims[c.ID]; p != nil && p.claim.Try == c.Try {
		granted = p.seen.waiting && !at.waiting
		p.seen = at
	}
	s.mu.Unlock()
	if granted {
		s.e.granted(c.ID)
	}
}

// lastSeen returns where a claim was last seen.
func (s *session) lastSeen(id string) location {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.claims[id]; p != nil {
		return p.seen
	}
	return location{}
}

// args returns the arguments of statements about one claim of the session.
func (s *session) args(c driver.Claim) *sqlstore.Args {
	a := s.e.claimArgs(c)
	a.SetText(sqlstore.Session, s.id)
	a.SetDuration(sqlstore.TTL, s.ttl)
	return a
}

// setTimedOut stores whether a beat waited for p's row until its time was over.
func (s *session) setTimedOut(p *beatEntry, timedOut bool) {
	if timedOut == p.timedOut {
		return
	}
	p.timedOut = timedOut
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.claims[p.claim.ID]; have != nil {
		have.timedOut = timedOut
	}
}
