package pawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A session is one driver session and the claims that live by it. Its keeper
// (keeper.go) beats for them; what had no answer is settled in leaving.go.
type session struct {
	c      *Client
	d      driver.Session
	id     string
	ttl    time.Duration
	margin time.Duration
	fixed  bool // for one lease without renewal: ends with it

	ctx     context.Context // of calls made in the background
	cancel  context.CancelFunc
	wake    chan struct{}  // buffered by one; tells the keeper to look again
	stop    chan struct{}  // closed by shut
	done    chan struct{}  // closed by the keeper when all is ended
	unended error          // why the session may not have ended in the store; set before done is closed
	calls   sync.WaitGroup // background calls; the keeper waits for them

	mu       sync.Mutex // guards the following, and the claims' fields that say so
	dead     bool       // no further claim may join
	gaveUp   bool       // claims were live when the client was closed: the session's end ends them
	spent    bool       // none may join either, but those that did stay until they end
	heard    instant    // when the last call that was answered had been sent
	live     []*claim   // the claims that joined; beaten once their Enter was answered
	held     int        // how many of live are held
	ticking  bool       // the keeper looks often enough for held claims
	granted  bool       // something was, since the keeper looked
	next     instant    // no held claim's deadline is before this
	promised instant    // until when the store promised the session itself
	leaving  []*departure
	left     []*claim // being left by Unlock
	rhythm   rhythm
	spare    *beat // buffers of the last beat, for the next
}

func newSession(c *Client, d driver.Session, id string, fixed bool, sent instant) *session {
	ttl := d.TTL()
	s := &session{
		c: c, d: d, id: id, ttl: ttl, margin: min(ttl/10, 500*time.Millisecond), fixed: fixed,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		promised: sent.add(ttl), heard: sent,
		rhythm: rhythm{next: sent.add(ttl / 3)},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// join makes cl a claim of s, unless s has ended or is about to.
func (s *session) join(cl *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.spent {
		return false
	}
	cl.s, cl.state, cl.index = s, entering, len(s.live)
	s.live = append(s.live, cl)
	cl.leases = cl.one[:0]
	cl.promise, cl.limit, cl.unanswered = 0, 0, 0
	return true
}

// open reports whether claims may still join.
func (s *session) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead && !s.spent
}

// rename gives cl an ID that the store has never seen.
func (s *session) rename(cl *claim) {
	s.mu.Lock()
	cl.ID, cl.Try, cl.promise, cl.unanswered = newID(), 1, 0, 0
	if cl.state == waiting {
		cl.state = entering
	}
	s.mu.Unlock()
}

// retry prepares cl for an Enter that follows one the store no longer knows.
func (s *session) retry(cl *claim) {
	s.mu.Lock()
	cl.Try++
	cl.promise = 0 // that was of the old place
	if cl.state == waiting {
		cl.state = entering // a beat for it would report a false loss
	}
	s.mu.Unlock()
}

// part ends cl's membership. What it may have left in the store is the leaving
// list's business.
func (s *session) part(cl *claim) {
	s.mu.Lock()
	s.endLocked(cl)
	s.mu.Unlock()
}

func (s *session) endLocked(cl *claim) {
	if cl.state == ended {
		return
	}
	if cl.state == held {
		s.held--
	}
	cl.state = ended
	last := len(s.live) - 1
	s.live[cl.index] = s.live[last]
	s.live[cl.index].index = cl.index
	s.live[last] = nil
	s.live = s.live[:last]
	if last == 0 && (s.fixed || s.spent) {
		s.poke() // the session ends with its only claim
	}
}

// poke makes the keeper look again.
func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to
	}
}

// enter asks the engine for cl once, for so long. A claim whose answer is known joins
// the live.
func (s *session) enter(ctx context.Context, cl *claim, limit time.Duration) (driver.Standing, error) {
	sent, at := s.c.both()
	cl.sent = sent
	call := newCall(ctx, at.Add(limit))
	st, err := s.d.Enter(call, cl.Claim)
	call.end()
	if err != nil {
		if !refused(err) {
			cl.unanswered = cl.sent
		}
		return st, err
	}
	s.c.contacted.Store(true)
	if st.Gone || !st.Held && !cl.Queue {
		return st, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return st, driver.ErrGone
	}
	s.answeredLocked(cl, st)
	if !st.Held && cl.state == entering {
		cl.state = waiting
	}
	return st, nil
}

// silent is for how long no call was answered. While there is a session there are
// beats, so it is short on a store that answers.
func (s *session) silent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silentLocked()
}

func (s *session) silentLocked() time.Duration { return s.c.now().sub(s.heard) }

// answeredLocked takes in what an answered Enter says of the store and promised.
func (s *session) answeredLocked(cl *claim, st driver.Standing) {
	s.heard = max(s.heard, cl.sent)
	s.promiseLocked(cl, cl.sent, st.Valid)
}

// promiseLocked takes in what a call that was sent at sent promised. Valid 0
// says that the claim lives by the session's own promise.
func (s *session) promiseLocked(cl *claim, sent instant, valid time.Duration) {
	until := s.promised
	if valid > 0 {
		until = sent.add(valid)
	}
	cl.promise = max(cl.promise, until.add(-s.margin))
	deadline := cl.promise
	if cl.limit != 0 {
		deadline = min(deadline, cl.limit)
	}
	cl.until.Store(int64(deadline))
}

// grant makes a claim that the engine said is held into a hold. It refuses if
// the answer came after the deadline: such a grant is given back.
func (s *session) grant(cl *claim, st driver.Standing) bool {
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || cl.state == ended || now >= cl.promise {
		return false
	}
	cl.state, cl.granted, cl.fence, cl.pass, cl.doubt = held, now, st.Token, 0, false
	s.capLocked(cl, now)
	if s.held == 0 || cl.deadline() < s.next {
		s.next = cl.deadline()
	}
	s.held++
	s.granted = true
	if !s.ticking {
		s.ticking = true
		s.poke()
	}
	return true
}

// capLocked starts the maximum hold anew, for whoever holds cl from now on.
func (s *session) capLocked(cl *claim, now instant) {
	if cl.o.maxHold == 0 {
		return
	}
	cl.limit = now.add(cl.o.maxHold)
	cl.until.Store(int64(min(cl.promise, cl.limit)))
	s.next = min(s.next, cl.limit)
}

// renew makes one beat for one claim and takes in what it promised. A lease
// without renewal gets it at its grant, for its time to start then; if it fails,
// the lease lasts as long as was promised before. A claim that the store does not show
// as st is another, which an Enter that was held up has left in place of an evicted one.
func (s *session) renew(ctx context.Context, cl *claim, st driver.Standing) (gone bool) {
	sent := s.c.now()
	call, cancel := context.WithTimeout(ctx, s.ttl/6)
	defer cancel()
	var out [1]driver.Standing
	err := s.d.Beat(call, []driver.Claim{cl.Claim}, out[:])
	now := out[0]
	if now.Valid > 0 {
		if !now.Held || now.Token != st.Token {
			return true
		}
		s.mu.Lock()
		s.promiseLocked(cl, sent, now.Valid)
		s.mu.Unlock()
	}
	return now.Gone || errors.Is(err, driver.ErrGone)
}

// interrupt makes the Await of cl, if there is one, come back and look.
func (s *session) interrupt(cl *claim) {
	s.mu.Lock()
	cancel := cl.interrupt
	s.mu.Unlock()
	if cancel != nil {
		cancel(errLook)
	}
}

// shut tells the keeper to end the session in the store and itself.
func (s *session) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
}

// refused reports whether err says that the engine did nothing.
func refused(err error) bool {
	return errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrLimit) ||
		errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrDenied)
}
