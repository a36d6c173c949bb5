package memlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A roll is what the engine knows of the quorum it is a node of.
type roll struct {
	list  string // "": none
	epoch uint64
	votes bool
	life  uint64    // which memory this is: another after each Forget
	since time.Time // since when it has known that it does not vote
}

// A vote is a session's part in a quorum.
type vote struct {
	enlisted bool
	list     string
	life     uint64 // the memory that the last Enlist has seen
	epoch    uint64 // and the epoch, or that of the last Rejoin
}

// lead is how far ahead of the clock a proposed token may be.
const lead = time.Second

var errMaxToken = errors.New("memlock: token out of range")

// Forget loses everything but the sessions, as a store does that is restarted
// without its data. It is there to test what stands on this engine.
func (e *Engine) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, l := range e.lines {
		for _, s := range l.spots {
			s.wake()
		}
		e.departedLocked(name)
	}
	clear(e.lines)
	clear(e.records)
	e.last = 0
	e.roll = roll{life: e.roll.life + 1}
}

// votesLocked reports whether a session may enter: one that is no part of a
// quorum always may, one of another quorum than the engine's never.
func (s *session) votesLocked() bool {
	r := &s.engine.roll
	return !s.vote.enlisted || r.votes && r.list == s.vote.list
}

// mintLocked makes the next token.
func (s *session) mintLocked(c driver.Claim, now time.Time) uint64 {
	e := s.engine
	e.last = max(e.last+1, min(c.Propose, uint64(now.Add(lead).UnixMicro())))
	return e.last
}

// Enlist makes the session one of a quorum.
func (s *session) Enlist(ctx context.Context, list string) (driver.Membership, error) {
	if err := ctx.Err(); err != nil {
		return driver.Membership{}, err
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return driver.Membership{}, driver.ErrGone
	}
	now := time.Now()
	r := &e.roll
	switch r.list {
	case list:
	case "":
		r.list, r.since = list, now
	default:
		return driver.Membership{}, fmt.Errorf("memlock: this node serves another quorum: %w", driver.ErrDenied)
	}
	s.vote = vote{enlisted: true, list: list, life: r.life, epoch: r.epoch}
	store := fmt.Sprintf("%p", e)
	if r.votes {
		return driver.Membership{Votes: true, Store: store}, nil
	}
	roll := driver.Membership{New: true, Since: now.Sub(r.since), Age: now.Sub(r.since), Store: store}
	if r.life == 0 { // it has never forgotten anything
		roll.Age = math.MaxInt64
	}
	return roll, nil
}

// Confirm raises the mark if the grant still stands.
func (s *session) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if token >= 1<<55 {
		return false, errMaxToken
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return false, driver.ErrGone
	}
	if !s.votesLocked() {
		return false, driver.ErrNoVote
	}
	l, i := s.findLocked(c, time.Now())
	if i < 0 {
		return false, nil
	}
	spot := l.spots[i]
	if !spot.held || spot.claim.Try != c.Try || spot.granted != granted || spot.epoch != e.roll.epoch {
		return false, nil
	}
	known := spot.token == token // minted here for this claim, or confirmed before
	if !known && !c.Exclusive() && token <= e.last {
		return false, nil
	}
	e.last = max(e.last, token)
	spot.token = token
	return true, nil
}

// Mark returns the highest token and the epoch.
func (s *session) Mark(ctx context.Context) (high, epoch uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.endedLocked() {
		return 0, 0, driver.ErrGone
	}
	return s.engine.last, s.engine.roll.epoch, nil
}

// Rejoin raises mark and epoch and lets the engine vote.
func (s *session) Rejoin(ctx context.Context, high, epoch uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.endedLocked() {
		return driver.ErrGone
	}
	if r := &e.roll; !s.vote.enlisted || r.list != s.vote.list || r.life != s.vote.life || r.epoch != s.vote.epoch || r.epoch >= epoch {
		return driver.ErrConflict
	}
	e.last = max(e.last, high)
	if !e.roll.votes { // what was lost was below the clock
		e.last = max(e.last, uint64(time.Now().UnixMicro()))
	}
	e.roll.epoch, e.roll.votes, s.vote.epoch = epoch, true, epoch
	return nil
}

var _ driver.Voter = (*session)(nil)

// Votes reports whether the engine votes in a quorum, for tests.
func (e *Engine) Votes() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.roll.votes
}
