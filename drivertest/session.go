package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A session is one session of a case. The methods in this file fail the case and
// belong to the test's goroutine; those in session_calls.go return an error and can
// be called by any goroutine. All of them retry calls whose reply was lost, as the
// core does.
type session struct {
	driver.Session
	f      *fixture
	engine driver.Engine
	id     string
	ttl    time.Duration // as requested
	opened time.Time     // just before Open was sent
	used   bool          // something was entered
	dead   bool
}

// open opens a session whose claims do not expire during the case.
func (f *fixture) open() *session {
	f.Helper()
	if limit := f.h.MaxTTL; limit > 0 {
		return f.openTTL(min(longTTL, limit))
	}
	return f.openTTL(longTTL)
}

// openShort opens a session with the shortest TTL.
func (f *fixture) openShort() *session {
	f.Helper()
	return f.openTTL(f.ttl)
}

// doubled returns 2*ttl, limited by Harness.MaxTTL.
func (f *fixture) doubled(ttl time.Duration) time.Duration {
	if limit := f.h.MaxTTL; limit > 0 {
		return min(2*ttl, limit)
	}
	return 2 * ttl
}

func (f *fixture) openTTL(ttl time.Duration) *session {
	f.Helper()
	engine := f.engine
	if f.peer != nil && len(f.sessions)%2 == 1 {
		engine = f.peer
	}
	s := &session{f: f, engine: engine, ttl: ttl}
	s.open()
	f.sessions = append(f.sessions, s)
	if s.TTL() <= 0 {
		f.Fatalf("Open: TTL() is %v after asking for %v", s.TTL(), ttl)
	}
	return s
}

// maxOpens is how often Open is tried. An engine may bound Open by the TTL, which
// is so short here that a stalled machine can exceed it.
const maxOpens = 3

// open opens the engine's session.
func (s *session) open() {
	s.f.Helper()
	var err error
	for range maxOpens {
		err = s.retryLostReply(s.f.ctx, func() (err error) {
			s.id, s.opened = newID(), time.Now()
			s.Session, err = s.engine.Open(s.f.ctx, driver.SessionOptions{ID: s.id, TTL: s.ttl, Note: "drivertest"})
			return err
		})
		if !errors.Is(err, driver.ErrUnreachable) {
			break
		}
		s.f.Logf("Open: %v", err)
	}
	if err != nil {
		s.f.Fatalf("Open: %v", err)
	}
}

// crash kills the session's client.
func (s *session) crash() {
	s.dead = true
	if s.f.h.Crash != nil {
		s.f.h.Crash(unwrapped(s.Session))
	}
}

// mustEnter enters c and fails the case on any error. If the session expired before
// its first use because the machine stalled, it is reopened, as the core does.
func (s *session) mustEnter(c driver.Claim) driver.Standing {
	s.f.Helper()
	st, err := s.tryEnter(s.f.ctx, c)
	for tries := 1; errors.Is(err, driver.ErrGone) && !s.used && time.Since(s.opened) > s.TTL() && tries < 5; tries++ {
		s.open()
		st, err = s.tryEnter(s.f.ctx, c)
	}
	if err != nil {
		s.f.Fatalf("Enter: %v", err)
	}
	s.used = true
	return st
}

// mustHold enters c, which must be held at once.
func (s *session) mustHold(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(c)
	if !st.Held || st.Gone {
		s.f.Fatalf("Enter %d of %d (queue %v): not held, %+v; nothing is in its way. It names as the holder\n%sand the line is\n%s",
			c.Need, c.Limit, c.Queue, st, showHolder(st), showEntries(s.f.list(c.Name)))
	}
	return st
}

// mustWait enters c, which must be placed in the line and not be held.
func (s *session) mustWait(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(c)
	if st.Held || st.Gone {
		s.f.Fatalf("Enter %d of %d: %+v; it should wait in the line\n%s", c.Need, c.Limit, st, showEntries(s.f.list(c.Name)))
	}
	return st
}

// mustNotHold enters c without queueing. c must not be held.
func (s *session) mustNotHold(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(withoutQueue(c))
	if st.Held {
		s.f.Fatalf("Enter %d of %d without queueing: held, %+v; somebody is in its way\n%s", c.Need, c.Limit, st, showEntries(s.f.list(c.Name)))
	}
	return st
}

// mustGetTurn waits for c's turn, which must come without a delay.
func (s *session) mustGetTurn(c driver.Claim, last driver.Standing) driver.Standing {
	s.f.Helper()
	var st driver.Standing
	s.f.promptly("Await of a claim whose turn has come", func() {
		var err error
		if st, err = s.awaitHeld(s.f.ctx, c, last); err != nil {
			s.f.Fatalf("Await: %v", err)
		}
	})
	return st
}

// mustLeave leaves c, which must exist.
func (s *session) mustLeave(c driver.Claim) {
	s.f.Helper()
	if err := s.tryLeave(s.f.ctx, c); err != nil {
		s.f.Fatalf("Leave: %v", err)
	}
}

// mustLeaveNothing leaves c, which must not exist.
func (s *session) mustLeaveNothing(c driver.Claim) {
	s.f.Helper()
	err := s.retryLostReply(s.f.ctx, func() error { return s.Leave(s.f.ctx, c) })
	if !errors.Is(err, driver.ErrGone) {
		s.f.Fatalf("Leave of a claim that is not there: %v, not ErrGone", err)
	}
}

// mustBeat beats cs and returns the answers.
func (s *session) mustBeat(cs ...driver.Claim) []driver.Standing {
	s.f.Helper()
	out, err := s.tryBeat(s.f.ctx, cs...)
	if err != nil {
		s.f.Fatalf("Beat: %v", err)
	}
	return out
}

// ended reports whether Beat answers that c or its whole session has ended.
func (s *session) ended(c driver.Claim) bool {
	s.f.Helper()
	out, err := s.tryBeat(s.f.ctx, c)
	if errors.Is(err, driver.ErrGone) {
		return true
	}
	if err != nil {
		s.f.Fatalf("Beat: %v", err)
	}
	return out[0].Gone
}

// close closes the session.
func (s *session) close() {
	s.f.Helper()
	if err := s.retryLostReply(s.f.ctx, func() error { return s.Session.Close(s.f.ctx) }); err != nil {
		s.f.Fatalf("Session.Close: %v", err)
	}
}
