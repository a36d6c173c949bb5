package zklock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A session is pawl's. It lives by a ZooKeeper session of its own, or shares that of the
// user's connection with others.
type session struct {
	e       *Engine
	id      string
	conn    *zkstore.Conn
	zs      *zkstore.Session
	ownConn bool // conn has no other user
	ttl     time.Duration
	recheck time.Duration // how long Await trusts watches that do not fire

	ctx         context.Context    // ends with zs, or earlier: see lose
	lose        context.CancelFunc // reports that the session has ended
	ended       chan struct{}      // closed when Close has done its work
	expiryTimer *time.Timer        // ends a session that is not beaten
	evictNode   *evictNode
	lines       driverkit.Shared[*line] // reads of lines, for all claims that come to wait there; by name

	mu          sync.Mutex // guards what follows
	closed      bool
	closeErr    error
	claims      map[string]*claimState // by claim ID: whatever is or may be in a line
	round       *verification          // under way; nil: none
	assumedFrom driverkit.Instant      // the core assumes that the session was promised one TTL from here
}

// A claimState is what a session knows of one claim.
type claimState struct {
	claim          driver.Claim
	entering       chan struct{} // closed when the Enter under way has returned; nil: there is none
	node           string        // its name in the line; empty: not known to be there
	token          uint64
	held           bool
	heldUnverified bool           // held by an event, not yet seen in the line
	hasWaited      bool           // some claim was ahead of it: others may be behind
	ahead          int            // as last seen; -1: unknown
	mayExist       bool           // an Enter without an answer may have created a node, or a further one
	limitChecked   bool           // its limit was found to fit the line
	waiting        *waitState     // what it waits for; nil: the line must be read
	ownWatch       *zkstore.Watch // on its own node, for Beat; nil: not set yet
	lostNode       bool           // a beat has found that its node is not there, or does not hold
}

var (
	_ driver.Multi  = (*session)(nil)
	_ driver.Leaver = (*session)(nil)
)

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return s.ctx.Done() }

// begin returns an error where no call may be sent.
func (s *session) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.zs.Ended() {
		return driver.ErrGone
	}
	return nil
}

// barrier is Engine.barrier in this session.
func (s *session) barrier(ctx context.Context) error { return s.e.barrier(ctx, s.zs) }

// pause is the longest time that a missed notice may cost.
func (s *session) pause() time.Duration { return min(max(s.ttl, time.Second), 10*time.Second) }

// heldStanding is the standing of a claim that holds.
func (s *session) heldStanding(cs *claimState) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Standing{Held: true, Token: cs.token, Ahead: cs.ahead}
}

// forget removes a claim of which nothing is in a line.
func (s *session) forget(cs *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[cs.claim.ID] == cs {
		delete(s.claims, cs.claim.ID)
	}
}
