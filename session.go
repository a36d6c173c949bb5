package pawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// A session is one driver session and the claims that live by it. This file has the
// calls of the driver, with their times. The keeper (keeper.go) beats, loss.go ends
// what was lost, and cleanup.go leaves what may still be in the store.
type session struct {
	c      *Client
	d      driver.Session
	id     string
	ttl    time.Duration
	margin time.Duration
	fixed  bool   // for one lease without renewal: ends with it
	forget func() // takes the session out of the client's registry

	ctx     context.Context // of calls made in the background
	cancel  context.CancelFunc
	wake    chan struct{}  // buffered by one; tells the keeper to look again
	stop    chan struct{}  // closed by shut
	done    chan struct{}  // closed by the keeper when all is ended
	unended error          // why the session may not have ended in the store; set before done is closed
	calls   sync.WaitGroup // background calls; the keeper waits for them

	mu         sync.Mutex   // guards the following, and the fields of claims that say so
	set        claimset.Set // the state of all claims
	ticking    bool         // the keeper looks often enough for held claims
	granted    bool         // a claim was granted since the keeper looked
	departures departures
	leavers    int      // goroutines that leave departures
	unlocking  []*claim // being left by Unlock
	schedule   schedule
	fault      beatFault
	spare      *beat // buffers of the last beat, for the next
}

func newSession(c *Client, d driver.Session, id string, fixed bool, sent instant) *session {
	ttl := d.TTL()
	margin := min(ttl/10, 500*time.Millisecond)
	s := &session{
		c: c, d: d, id: id, ttl: ttl, margin: margin, fixed: fixed,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		set:      claimset.New(ttl, margin, fixed, sent),
		schedule: schedule{round: sent, next: sent.Add(ttl / 3)},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// join makes cl a claim of s, unless s has ended or is about to.
func (s *session) join(cl *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.set.Join(&cl.Claim) {
		return false
	}
	cl.s, cl.terms, cl.unanswered = s, cl.one[:0], 0
	return true
}

// open reports whether claims may still join.
func (s *session) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Open()
}

// ended reports whether the session has ended.
func (s *session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Closed()
}

// rename gives cl an ID that the store has never seen.
func (s *session) rename(cl *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Rename(&cl.Claim, newID())
	cl.unanswered = 0
}

// retry prepares cl for an Enter that follows one the store no longer knows.
func (s *session) retry(cl *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Retry(&cl.Claim)
}

// end ends cl's membership, and reports whether it was held. It does not tell the
// store.
func (s *session) end(cl *claim) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked(cl)
}

func (s *session) endLocked(cl *claim) (held bool) {
	held = s.set.End(&cl.Claim)
	if len(s.set.Live()) == 0 && s.endingLocked() {
		s.wakeKeeper()
	}
	return held
}

// endingLocked reports whether the session ends as soon as it is not in use.
func (s *session) endingLocked() bool { return s.fixed || s.set.Retiring() }

// wakeKeeper makes the keeper look again.
func (s *session) wakeKeeper() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to
	}
}

// shut tells the keeper to end the session in the store, and itself.
func (s *session) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Close()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
}

// silent returns for how long no call was answered. While there is a session there
// are beats, so it is short on a store that answers.
func (s *session) silent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.now().Sub(s.set.LastAnswer())
}

// promised returns until when the store has promised the session.
func (s *session) promised() instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Promised()
}

// claimPromised returns until when the store has promised cl; 0: it has not yet.
func (s *session) claimPromised(cl *claim) instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cl.Promise()
}

// enter calls Enter for cl once, for at most limit.
func (s *session) enter(ctx context.Context, cl *claim, limit time.Duration) (driver.Standing, error) {
	promised := s.promised()
	sent, at := s.c.both()
	call := callUntil(ctx, at.Add(limit))
	st, err := s.d.Enter(call, cl.Claim.Claim)
	call.end()
	if err != nil {
		if !refused(err) {
			cl.unanswered = sent
		}
		return st, err
	}
	s.c.contacted.Store(true)
	if st.Gone || !st.Held && !cl.Queue {
		return st, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.set.Answered(&cl.Claim, sent, promised, st) {
		return st, driver.ErrGone
	}
	return st, nil
}

// enterAll calls EnterAll once, for at most limit.
func (s *session) enterAll(ctx context.Context, m driver.Multi, cls []*claim, limit time.Duration) ([]driver.Standing, error) {
	promised := s.promised()
	sent, at := s.c.both()
	asked := make([]driver.Claim, len(cls))
	for i, cl := range cls {
		asked[i] = cl.Claim.Claim
	}
	call := callUntil(ctx, at.Add(limit))
	out, err := m.EnterAll(call, asked)
	call.end()
	if err != nil {
		for _, cl := range cls {
			if !refused(err) {
				cl.unanswered = sent
			}
		}
		return nil, err
	}
	s.c.contacted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, cl := range cls {
		if out[i].Held {
			s.set.Answered(&cl.Claim, sent, promised, out[i])
		}
	}
	return out, nil
}

// await makes one call of Await that the keeper can interrupt, with errLook.
func (s *session) await(ctx context.Context, cl *claim, last driver.Standing) (driver.Standing, error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent := s.c.now()
	s.mu.Lock()
	if s.set.Closed() { // nothing would interrupt it
		s.mu.Unlock()
		return driver.Standing{}, driver.ErrGone
	}
	cl.interrupt = cancel
	c := cl.Claim.Claim
	s.mu.Unlock()
	st, err := s.d.Await(call, c, last)
	s.mu.Lock()
	cl.interrupt = nil
	if err == nil && st.Held && st.Valid > 0 {
		s.set.Answered(&cl.Claim, sent, 0, st)
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(call), errLook) {
		err = errLook
	}
	return st, err
}

// grant makes a claim that the engine said is held into a hold. It refuses if the
// answer came after the deadline: such a grant is given back.
func (s *session) grant(cl *claim, st driver.Standing) bool {
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.set.Grant(&cl.Claim, st.Token, now) {
		return false
	}
	s.granted = true
	urgent := !s.fixed && s.schedule.granted(now, cl.Promise(), s.ttl)
	if urgent || !s.ticking {
		s.ticking = true
		s.wakeKeeper()
	}
	return true
}

// confirm asks the store in one beat whether it has cl under this fence, and takes in
// what it promises. errBroken says that it has not: the claim is gone, or an Enter
// that was held up has replaced an evicted one under the same ID. Any other error
// says that nothing was learnt.
func (s *session) confirm(ctx context.Context, cl *claim, fence uint64) error {
	sent := s.c.now()
	call, cancel := context.WithTimeout(ctx, s.ttl/6)
	defer cancel()
	var out [1]driver.Standing
	err := s.d.Beat(call, []driver.Claim{cl.Claim.Claim}, out[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.set.Confirmed(&cl.Claim, fence, sent, out[0]):
		return errBroken
	case errors.Is(err, driver.ErrGone):
		return errDead
	case out[0].Valid > 0:
		return nil
	case err == nil:
		return driver.ErrUnreachable
	}
	return err
}

// refused reports whether err says that the engine did nothing.
func refused(err error) bool {
	return errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrLimit) ||
		errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrDenied)
}
