package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A player is one session of a case. Its methods in the first half fail the
// case and belong to the test's goroutine; those that return an error can be
// called by any. All repeat a call whose reply was lost, as the core does.
type session struct {
	driver.Session
	f      *fixture
	engine driver.Engine
	id     string
	ttl    time.Duration // asked for
	opened time.Time     // just before Open was sent
	used   bool          // it has entered something
	dead   bool
}

// join opens a session in which nothing expires while the case lasts.
func (f *fixture) open() *session {
	f.Helper()
	if limit := f.h.MaxTTL; limit > 0 {
		return f.openTTL(min(longTTL, limit))
	}
	return f.openTTL(longTTL)
}

// joinBriefly opens a session with the shortest TTL.
func (f *fixture) openShort() *session {
	f.Helper()
	return f.openTTL(f.ttl)
}

// twice is a TTL twice as long, as far as the engine goes.
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

// openings is how often a session is opened that a machine which stalled had no
// time to open: an engine may bound that by the TTL, which is short here.
const openings = 3

// open opens p's session.
func (s *session) open() {
	s.f.Helper()
	var err error
	for range openings {
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

// die lets the session's client vanish.
func (s *session) crash() {
	s.dead = true
	if s.f.h.Crash != nil {
		s.f.h.Crash(unwrapped(s.Session))
	}
}

// enter asks for c and fails the case on any error. A session whose time was over
// before it was used, because the machine stalled, is opened anew, as the core does.
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

// hold asks for c, which must be held at once.
func (s *session) mustHold(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(c)
	if !st.Held || st.Gone {
		s.f.Fatalf("Enter %d of %d (queue %v): not held, %+v; nothing is in its way\n%s", c.Need, c.Limit, c.Queue, st, showEntries(s.f.list(c.Name)))
	}
	return st
}

// stand asks for c, which must be put in the line and not be held.
func (s *session) mustWait(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(c)
	if st.Held || st.Gone {
		s.f.Fatalf("Enter %d of %d: %+v; it should wait in the line\n%s", c.Need, c.Limit, st, showEntries(s.f.list(c.Name)))
	}
	return st
}

// denied asks for c without standing in line; it must not be held.
func (s *session) mustNotHold(c driver.Claim) driver.Standing {
	s.f.Helper()
	st := s.mustEnter(withoutQueue(c))
	if st.Held {
		s.f.Fatalf("Enter %d of %d without queueing: held, %+v; somebody is in its way\n%s", c.Need, c.Limit, st, showEntries(s.f.list(c.Name)))
	}
	return st
}

// turn waits for c's turn, which must have come already or be on its way.
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

// leave gives c back, which must be there.
func (s *session) mustLeave(c driver.Claim) {
	s.f.Helper()
	if err := s.tryLeave(s.f.ctx, c); err != nil {
		s.f.Fatalf("Leave: %v", err)
	}
}

// leaveNothing calls Leave for a claim that is not there.
func (s *session) mustLeaveNothing(c driver.Claim) {
	s.f.Helper()
	err := s.retryLostReply(s.f.ctx, func() error { return s.Leave(s.f.ctx, c) })
	if !errors.Is(err, driver.ErrGone) {
		s.f.Fatalf("Leave of a claim that is not there: %v, not ErrGone", err)
	}
}

// beat prolongs cs and returns the answers.
func (s *session) mustBeat(cs ...driver.Claim) []driver.Standing {
	s.f.Helper()
	out, err := s.tryBeat(s.f.ctx, cs...)
	if err != nil {
		s.f.Fatalf("Beat: %v", err)
	}
	return out
}

// ended reports whether c is over for its own session: Beat answers for the
// claim, or that the whole session has ended.
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

// shut closes the session.
func (s *session) close() {
	s.f.Helper()
	if err := s.retryLostReply(s.f.ctx, func() error { return s.Session.Close(s.f.ctx) }); err != nil {
		s.f.Fatalf("Session.Close: %v", err)
	}
}

// promise returns until when at least a claim lives after st was answered to a
// call sent at sent: an answer that promises nothing leaves it to the session.
func (s *session) validUntil(sent time.Time, st driver.Standing) time.Time {
	if st.Valid > 0 {
		return sent.Add(st.Valid)
	}
	return s.opened.Add(s.TTL())
}

// ask is Enter.
func (s *session) tryEnter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	err = s.retryLostReply(ctx, func() error {
		st, err = s.Enter(ctx, c)
		return err
	})
	return st, err
}

// until calls Await until c is held.
func (s *session) awaitHeld(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	for !last.Held {
		err := s.retryLostReply(ctx, func() error {
			st, err := s.Await(ctx, c, last)
			if err == nil {
				last = st
			}
			return err
		})
		if err != nil {
			return last, err
		}
		if last.Gone {
			return last, fmt.Errorf("claim %s waited and is gone", c.ID)
		}
	}
	return last, nil
}

// take acquires c as the core does: in line where the engine has one, else by
// trying again with the next Try. It returns the claim that is held.
func (s *session) acquire(ctx context.Context, c driver.Claim) (driver.Claim, driver.Standing, error) {
	st, err := s.tryEnter(ctx, c)
	if err == nil && c.Queue {
		st, err = s.awaitHeld(ctx, c, st)
		return c, st, err
	}
	for err == nil && !st.Held {
		if err = s.awaitHint(ctx, c, st); err != nil {
			break
		}
		c = nextTry(c)
		st, err = s.tryEnter(ctx, c)
	}
	return c, st, err
}

// hint waits for a sign that a name may be free, where the engine gives one, and
// never for long: it may be missed.
func (s *session) awaitHint(ctx context.Context, c driver.Claim, last driver.Standing) error {
	pause := s.f.ttl / 10
	if last.Pause > 0 {
		pause = min(pause, last.Pause)
	}
	wait, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if s.f.can.Queue { // one who only tries has nothing to await there
		<-wait.Done()
		return ctx.Err()
	}
	_, err := s.Await(wait, c, last)
	if wait.Err() != nil || s.f.losesReplies && errors.Is(err, driver.ErrUnreachable) {
		return ctx.Err()
	}
	return err
}

// quit is Leave; that a repeat finds nothing shows that the first was heard.
func (s *session) tryLeave(ctx context.Context, c driver.Claim) error {
	lost := false
	return s.retryLostReply(ctx, func() error {
		err := s.Leave(ctx, c)
		if lost && errors.Is(err, driver.ErrGone) {
			return nil
		}
		lost = errors.Is(err, driver.ErrUnreachable)
		return err
	})
}

// pulse is Beat.
func (s *session) tryBeat(ctx context.Context, cs ...driver.Claim) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(cs))
	err := s.retryLostReply(ctx, func() error {
		clear(out)
		return s.Beat(ctx, cs, out)
	})
	return out, err
}

func (s *session) retryLostReply(ctx context.Context, call func() error) error {
	return retryLostReply(ctx, s.f.losesReplies, call)
}

// again repeats a call whose reply the suite itself has lost. A store that is
// really out of reach fails the case.
func retryLostReply(ctx context.Context, lossy bool, call func() error) error {
	for {
		err := call()
		if !lossy || !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
	}
}
