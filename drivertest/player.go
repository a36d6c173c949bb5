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
type player struct {
	driver.Session
	s      *stage
	engine driver.Engine
	id     string
	ttl    time.Duration // asked for
	opened time.Time     // just before Open was sent
	used   bool          // it has entered something
	dead   bool
}

// join opens a session in which nothing expires while the case lasts.
func (s *stage) join() *player {
	s.Helper()
	if limit := s.h.MaxTTL; limit > 0 {
		return s.joinFor(min(longTTL, limit))
	}
	return s.joinFor(longTTL)
}

// joinBriefly opens a session with the shortest TTL.
func (s *stage) joinBriefly() *player {
	s.Helper()
	return s.joinFor(s.ttl)
}

// twice is a TTL twice as long, as far as the engine goes.
func (s *stage) twice(ttl time.Duration) time.Duration {
	if limit := s.h.MaxTTL; limit > 0 {
		return min(2*ttl, limit)
	}
	return 2 * ttl
}

func (s *stage) joinFor(ttl time.Duration) *player {
	s.Helper()
	engine := s.engine
	if s.peer != nil && len(s.players)%2 == 1 {
		engine = s.peer
	}
	p := &player{s: s, engine: engine, ttl: ttl}
	p.open()
	s.players = append(s.players, p)
	if p.TTL() <= 0 {
		s.Fatalf("Open: TTL() is %v after asking for %v", p.TTL(), ttl)
	}
	return p
}

// openings is how often a session is opened that a machine which stalled had no
// time to open: an engine may bound that by the TTL, which is short here.
const openings = 3

// open opens p's session.
func (p *player) open() {
	p.s.Helper()
	var err error
	for range openings {
		err = p.again(p.s.ctx, func() (err error) {
			p.id, p.opened = newID(), time.Now()
			p.Session, err = p.engine.Open(p.s.ctx, driver.SessionOptions{ID: p.id, TTL: p.ttl, Note: "drivertest"})
			return err
		})
		if !errors.Is(err, driver.ErrUnreachable) {
			break
		}
		p.s.Logf("Open: %v", err)
	}
	if err != nil {
		p.s.Fatalf("Open: %v", err)
	}
}

// die lets the session's client vanish.
func (p *player) die() {
	p.dead = true
	if p.s.h.Crash != nil {
		p.s.h.Crash(inner(p.Session))
	}
}

// enter asks for c and fails the case on any error. A session whose time was over
// before it was used, because the machine stalled, is opened anew, as the core does.
func (p *player) enter(c driver.Claim) driver.Standing {
	p.s.Helper()
	st, err := p.ask(p.s.ctx, c)
	for tries := 1; errors.Is(err, driver.ErrGone) && !p.used && time.Since(p.opened) > p.TTL() && tries < 5; tries++ {
		p.open()
		st, err = p.ask(p.s.ctx, c)
	}
	if err != nil {
		p.s.Fatalf("Enter: %v", err)
	}
	p.used = true
	return st
}

// hold asks for c, which must be held at once.
func (p *player) hold(c driver.Claim) driver.Standing {
	p.s.Helper()
	st := p.enter(c)
	if !st.Held || st.Gone {
		p.s.Fatalf("Enter %d of %d (queue %v): not held, %+v; nothing is in its way\n%s", c.Need, c.Limit, c.Queue, st, showEntries(p.s.list(c.Name)))
	}
	return st
}

// stand asks for c, which must be put in the line and not be held.
func (p *player) stand(c driver.Claim) driver.Standing {
	p.s.Helper()
	st := p.enter(c)
	if st.Held || st.Gone {
		p.s.Fatalf("Enter %d of %d: %+v; it should wait in the line\n%s", c.Need, c.Limit, st, showEntries(p.s.list(c.Name)))
	}
	return st
}

// denied asks for c without standing in line; it must not be held.
func (p *player) denied(c driver.Claim) driver.Standing {
	p.s.Helper()
	st := p.enter(tries(c))
	if st.Held {
		p.s.Fatalf("Enter %d of %d without queueing: held, %+v; somebody is in its way\n%s", c.Need, c.Limit, st, showEntries(p.s.list(c.Name)))
	}
	return st
}

// turn waits for c's turn, which must have come already or be on its way.
func (p *player) turn(c driver.Claim, last driver.Standing) driver.Standing {
	p.s.Helper()
	var st driver.Standing
	p.s.promptly("Await of a claim whose turn has come", func() {
		var err error
		if st, err = p.until(p.s.ctx, c, last); err != nil {
			p.s.Fatalf("Await: %v", err)
		}
	})
	return st
}

// leave gives c back, which must be there.
func (p *player) leave(c driver.Claim) {
	p.s.Helper()
	if err := p.quit(p.s.ctx, c); err != nil {
		p.s.Fatalf("Leave: %v", err)
	}
}

// leaveNothing calls Leave for a claim that is not there.
func (p *player) leaveNothing(c driver.Claim) {
	p.s.Helper()
	err := p.again(p.s.ctx, func() error { return p.Leave(p.s.ctx, c) })
	if !errors.Is(err, driver.ErrGone) {
		p.s.Fatalf("Leave of a claim that is not there: %v, not ErrGone", err)
	}
}

// beat prolongs cs and returns the answers.
func (p *player) beat(cs ...driver.Claim) []driver.Standing {
	p.s.Helper()
	out, err := p.pulse(p.s.ctx, cs...)
	if err != nil {
		p.s.Fatalf("Beat: %v", err)
	}
	return out
}

// ended reports whether c is over for its own session: Beat answers for the
// claim, or that the whole session has ended.
func (p *player) ended(c driver.Claim) bool {
	p.s.Helper()
	out, err := p.pulse(p.s.ctx, c)
	if errors.Is(err, driver.ErrGone) {
		return true
	}
	if err != nil {
		p.s.Fatalf("Beat: %v", err)
	}
	return out[0].Gone
}

// shut closes the session.
func (p *player) shut() {
	p.s.Helper()
	if err := p.again(p.s.ctx, func() error { return p.Session.Close(p.s.ctx) }); err != nil {
		p.s.Fatalf("Session.Close: %v", err)
	}
}

// promise returns until when at least a claim lives after st was answered to a
// call sent at sent: an answer that promises nothing leaves it to the session.
func (p *player) promise(sent time.Time, st driver.Standing) time.Time {
	if st.Valid > 0 {
		return sent.Add(st.Valid)
	}
	return p.opened.Add(p.TTL())
}

// ask is Enter.
func (p *player) ask(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	err = p.again(ctx, func() error {
		st, err = p.Enter(ctx, c)
		return err
	})
	return st, err
}

// until calls Await until c is held.
func (p *player) until(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	for !last.Held {
		err := p.again(ctx, func() error {
			st, err := p.Await(ctx, c, last)
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
func (p *player) take(ctx context.Context, c driver.Claim) (driver.Claim, driver.Standing, error) {
	st, err := p.ask(ctx, c)
	if err == nil && c.Queue {
		st, err = p.until(ctx, c, st)
		return c, st, err
	}
	for err == nil && !st.Held {
		if err = p.hint(ctx, c, st); err != nil {
			break
		}
		c = next(c)
		st, err = p.ask(ctx, c)
	}
	return c, st, err
}

// hint waits for a sign that a name may be free, where the engine gives one, and
// never for long: it may be missed.
func (p *player) hint(ctx context.Context, c driver.Claim, last driver.Standing) error {
	pause := p.s.ttl / 10
	if last.Pause > 0 {
		pause = min(pause, last.Pause)
	}
	wait, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if p.s.can.Queue { // one who only tries has nothing to await there
		<-wait.Done()
		return ctx.Err()
	}
	_, err := p.Await(wait, c, last)
	if wait.Err() != nil || p.s.lossy && errors.Is(err, driver.ErrUnreachable) {
		return ctx.Err()
	}
	return err
}

// quit is Leave; that a repeat finds nothing shows that the first was heard.
func (p *player) quit(ctx context.Context, c driver.Claim) error {
	lost := false
	return p.again(ctx, func() error {
		err := p.Leave(ctx, c)
		if lost && errors.Is(err, driver.ErrGone) {
			return nil
		}
		lost = errors.Is(err, driver.ErrUnreachable)
		return err
	})
}

// pulse is Beat.
func (p *player) pulse(ctx context.Context, cs ...driver.Claim) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(cs))
	err := p.again(ctx, func() error {
		clear(out)
		return p.Beat(ctx, cs, out)
	})
	return out, err
}

func (p *player) again(ctx context.Context, call func() error) error {
	return again(ctx, p.s.lossy, call)
}

// again repeats a call whose reply the suite itself has lost. A store that is
// really out of reach fails the case.
func again(ctx context.Context, lossy bool, call func() error) error {
	for {
		err := call()
		if !lossy || !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
	}
}
