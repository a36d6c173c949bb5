package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// runAndWait runs a script, and on the same connection in the same piece WAIT,
// which counts what its own connection wrote and nothing else. It returns how
// many replicas have it.
func (e *Engine) runAndWait(ctx context.Context, sc *script, key string, call []string, within time.Duration) (r Reply, replicas int, err error) {
	wait := []string{"WAIT", strconv.Itoa(e.o.replicas), strconv.FormatInt(max(within.Milliseconds(), 1), 10)} // 0 would be for ever
	out, err := e.c.Together(ctx, key, [][]string{call, wait})
	if err == nil && code(out[0].Err) == "NOSCRIPT" {
		out, err = e.c.Together(ctx, key, [][]string{sc.whole(call), wait})
	}
	if err != nil {
		return Reply{}, 0, err
	}
	if out[0].Err != nil {
		return Reply{}, 0, out[0].Err
	}
	return out[0].Reply, int(out[1].Int), out[1].Err
}

// grant runs a script that may grant c. Where the engine waits for replicas, a
// grant that too few have within a time is undone.
func (s *session) grant(ctx context.Context, c *driver.Claim, sc *script, key string, call []string, within time.Duration) (Reply, error) {
	e := s.e
	if e.o.replicas == 0 {
		return e.send(ctx, sc, key, call)
	}
	r, replicas, err := e.runAndWait(ctx, sc, key, call, within)
	switch {
	case err != nil && len(r.Array) > 0 && r.Array[0].Int == codeWaits: // it is in the line, and could never be granted
		return Reply{}, s.undo(ctx, c, err)
	case r.Text == "": // not granted, so nothing that replicas must know
		return r, err
	case err != nil:
		return Reply{}, s.undo(ctx, c, err)
	case replicas < e.o.replicas:
		return Reply{}, s.undo(ctx, c, fmt.Errorf("a grant of %q reached %d of %d replicas within %v and was given back",
			c.Name, replicas, e.o.replicas, within))
	}
	return r, nil
}

// undo gives back what must not be used. Where the server has refused WAIT and the
// claim has ended, the caller is told of a refusal; else that nothing is certain, so
// it leaves the claim again.
func (s *session) undo(ctx context.Context, c *driver.Claim, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.ttl, time.Second))
	defer cancel()
	err := s.depart(ctx, *c)
	if err == nil || errors.Is(err, driver.ErrGone) {
		if code(why) == "NOPERM" {
			return why
		}
		return shortage{why}
	}
	return shortage{errors.New(why.Error())} // without the server's code: that would be a refusal
}

// A shortage is an error that is no fault of the connection.
type shortage struct{ error }

func (s shortage) Unwrap() error { return s.error }

// confirm makes sure that a grant which was told, not asked for, is one that
// enough replicas have.
func (s *session) confirm(ctx context.Context, c *driver.Claim, token uint64) (driver.Standing, error) {
	if s.e.o.replicas == 0 {
		return driver.Standing{Held: true, Token: token, Ahead: -1}, nil
	}
	at, own := s.of(c)
	// A beat that finds the claim held makes Await come back, so the replicas have to
	// answer between two beats.
	r, err := s.grant(ctx, c, lookScript, at.hold, lookScript.call(4, at.keys(own, s.millis, "1")), min(s.e.o.timeout, s.ttl/6))
	if err != nil {
		s.untaken(c)
		return driver.Standing{}, s.e.faultAt(c.Name, err)
	}
	st, err := s.standing(c, r)
	if err != nil || !st.Held {
		s.untaken(c)
	}
	return st, err
}

// untaken makes the next Await look: the caller was not told of a grant after all.
func (s *session) untaken(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		p.taken, p.heard = false, 0
	}
}
