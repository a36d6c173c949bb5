package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A session is pawl's. It lives by a life of its own, or by that of the user's
// connection together with others.
type session struct {
	e      *Engine
	id     string
	l      *link
	f      *life
	ttl    time.Duration
	lost   chan struct{} // closed by die
	dying  sync.Once
	ending chan struct{} // closed when end is done
	dog    *time.Timer   // ends a session that nobody beats
	alone  bool          // the life is its own
	trust  time.Duration // how long a watch is trusted that does not fire

	mu      sync.Mutex // guards what follows
	closed  bool
	err     error            // of end
	spots   map[string]*spot // by claim ID: what is or may be in a line
	round   *round           // of verifying, under way; nil: none is
	assumed instant          // the core takes the session to be promised for one TTL from here
}

// A spot is one claim of a session.
type spot struct {
	claim   driver.Claim
	entered chan struct{} // closed when the Enter under way has come back; nil: there is none
	node    string        // its name in the line; empty: not known to be there
	token   uint64
	held    bool
	waited  bool   // somebody was ahead of it: others may be behind
	ahead   int    // as last seen; -1: not known
	unsure  bool   // an Enter without an answer may have made a node, or a further one
	judged  bool   // its limit was found to fit the line
	hinted  bool   // held by what a watch told, not yet seen in the line
	view    *view  // what it waits for; nil: it must look
	own     *watch // on its own node, for Beat; nil: none was set
	broken  bool   // a beat has found that it is not in its line, or does not hold
}

var _ driver.Multi = (*session)(nil)

// Open starts a session: on a connection of its own, with the TTL asked for as
// near as the servers keep it; or on that of the user, with the TTL this has.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	sent := now()
	s := &session{
		e: e, id: o.ID, l: e.main, alone: !e.borrow, assumed: sent, trust: trust,
		lost: make(chan struct{}), ending: make(chan struct{}), spots: map[string]*spot{},
	}
	var err error
	if s.alone {
		s.l, err = e.connect(ctx, timeoutFor(o.TTL), true)
	} else {
		err = e.main.hooked(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := s.enrol(ctx); err != nil {
		if s.alone {
			e.drop(s.l)
		}
		return nil, err
	}
	return s, nil
}

// enrol makes s a member of the link's life.
func (s *session) enrol(ctx context.Context) error {
	l := s.l
	l.mu.Lock()
	s.f = l.life
	if s.f == nil || s.f.ended() {
		l.mu.Unlock()
		return driver.ErrGone
	}
	s.f.members[s] = s.die
	s.ttl, _ = usable(s.f.timeout, l.wanted(s.f.timeout))
	l.mu.Unlock()
	if !s.alone {
		// What the user's connection has done so far promises nothing from now on.
		if err := s.witness(ctx); err != nil {
			s.part()
			return err
		}
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.closed {
		s.part()
		return errClosed
	}
	s.e.sessions[s] = struct{}{}
	s.dog = time.AfterFunc(s.ttl, s.unbeaten)
	return nil
}

func (s *session) part() {
	s.l.mu.Lock()
	delete(s.f.members, s)
	s.l.mu.Unlock()
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return s.lost }

// die tells everybody that the session has ended. It may be called under link.mu.
func (s *session) die() { s.dying.Do(func() { close(s.lost) }) }

// begin says whether a call may go out.
func (s *session) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.f.ended() {
		return driver.ErrGone
	}
	return nil
}

// witness is a write that changes nothing. Its answer shows that the life was
// there when a majority agreed, and that the server at hand has caught up to then.
func (s *session) witness(ctx context.Context) error { return s.e.witness(ctx, s.l, s.f) }

func (e *Engine) witness(ctx context.Context, l *link, f *life) error {
	var err error
	for _, path := range []string{e.root, "/"} { // the root of all is there, but may be closed to us
		err = l.do(ctx, f, func(c *zk.Conn) error {
			_, err := c.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
			return err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			break
		}
	}
	return err
}

// until is when the servers may end the life.
func (s *session) until() instant {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.f.until
}

// unbeaten ends a session whose TTL is over without a beat: the library goes on
// pinging for it as long as the process lives.
func (s *session) unbeaten() {
	if !s.e.begin() {
		return // Close ends it
	}
	defer s.e.tasks.Done()
	s.die()
	ctx, cancel := context.WithTimeout(s.e.begun, closeTimeout)
	defer cancel()
	_ = s.end(ctx) // what could not be ended now ends with the life, or by tidy
}

// Close ends the session and whatever it still has in line.
func (s *session) Close(ctx context.Context) error { return s.end(ctx) }

// end ends the session once; who comes later waits for it.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		s.finish()
	}
	select {
	case <-s.ending:
	case <-ctx.Done():
		return unanswered(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil // told once: a second Close is none
	return err
}

// finish starts what ends the session.
func (s *session) finish() {
	s.dog.Stop()
	s.die()
	s.part()
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.tasks.Add(1) // end is called by Close at the latest, which waits after it
	s.e.mu.Unlock()
	go func() { // Close waits for it, by tasks
		defer s.e.tasks.Done()
		var err error
		if !s.alone {
			if err = s.tidy(); err != nil {
				s.e.mu.Lock()
				s.e.stand = append(s.e.stand, err)
				s.e.mu.Unlock()
			}
		} else if !s.l.close() {
			err = unreachable(errors.New("the servers did not confirm the end of the session"))
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		close(s.ending)
	}()
}
