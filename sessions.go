package pawl

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// exactSessions is how many sessions a client has for TTLs exactly as they were
// asked for. Further TTLs are rounded up, see stepped.
const exactSessions = 32

// session gives cl a session for its TTL: the shared one, or one of its own for
// a lease without renewal, which must not be prolonged by another's beats.
func (c *Client) session(ctx context.Context, cl *claim) (*session, error) {
	if cl.o.fixed {
		s, err := c.open(ctx, cl.o.ttl, cl.o.ttl, true)
		if err == nil && !s.join(cl) {
			err = driver.ErrGone
		}
		return s, err
	}
	for {
		if s, _ := c.find(cl.o.ttl); s != nil {
			if err := s.overwhelmed(); err != nil {
				return nil, err
			}
			if s.join(cl) {
				return s, nil
			}
		}
		select {
		case c.opening <- struct{}{}: // one opener at a time
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var err error
		if s, ttl := c.find(cl.o.ttl); s == nil || !s.open() {
			_, err = c.open(ctx, cl.o.ttl, ttl, false)
		}
		<-c.opening
		if err != nil {
			return nil, err
		}
	}
}

// find returns the session for a TTL, nil if there is none yet, and the TTL that it
// has or should be opened with.
func (c *Client) find(ttl time.Duration) (*session, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shared[ttl]; s != nil || len(c.shared) < exactSessions {
		return s, ttl
	}
	ttl = stepped(ttl)
	return c.shared[ttl], ttl
}

// stepped rounds a TTL up to one of four steps between a power of two and the next,
// by less than a quarter. A program that computes its TTLs, as from deadlines, would
// otherwise have a session, with beats of its own, for nearly every lock.
func stepped(ttl time.Duration) time.Duration {
	step := time.Duration(1) << max(0, bits.Len64(uint64(ttl))-3)
	return (ttl + step - 1) / step * step
}

// open starts a session that asks for ttl and is of use if it gets at least need.
func (c *Client) open(ctx context.Context, need, ttl time.Duration, fixed bool) (*session, error) {
	id, sent := newID(), c.now()
	call, cancel := context.WithTimeout(ctx, min(need, maxTry)) // others wait for it, who want other TTLs
	defer cancel()
	d, err := c.engine.Open(call, driver.SessionOptions{ID: id, TTL: ttl, Note: c.defaults.note})
	if err != nil {
		return nil, err
	}
	if got := d.TTL(); got < need {
		_ = d.Close(call)
		return nil, fmt.Errorf("%w: TTL of %v, the store keeps at most %v", ErrInvalid, need, got)
	}
	s := newSession(c, d, id, fixed, sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[s] = struct{}{}
	if !fixed {
		c.shared[ttl] = s
	}
	c.keepers.Add(1)
	go s.keep() // Close waits for it, by keepers
	return s, nil
}

// forget takes an ended session out of the maps.
func (c *Client) forget(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s)
	for ttl, o := range c.shared {
		if o == s {
			delete(c.shared, ttl)
		}
	}
}
