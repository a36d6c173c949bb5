package zkstore

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A Caller runs calls of the client library: a [Conn] in whatever ZooKeeper session there
// is, a [Session] only in that one.
type Caller interface {
	// Call runs call and returns its error as driver's errors. When ctx ends first, call
	// runs on alone: variables that it writes must not be read then.
	Call(ctx context.Context, call func(c *zk.Conn) error) error
}

// Call implements [Caller].
func (c *Conn) Call(ctx context.Context, call func(c *zk.Conn) error) error {
	return c.call(ctx, nil, call)
}

// Call implements [Caller].
func (s *Session) Call(ctx context.Context, call func(c *zk.Conn) error) error {
	return s.conn.call(ctx, s, call)
}

// Start runs a write beside its caller and reports its outcome, however late: answered is
// called once, if Start returned true. Close waits for it. The guard is a text that only
// this request contains, such as the path of a node: by it the request is kept from being
// sent in a later ZooKeeper session.
func (s *Session) Start(guard string, call func(c *zk.Conn) error, answered func(err error)) bool {
	return s.conn.start(s, guard, call, answered)
}

// Ready waits until the servers can be asked.
func (c *Conn) Ready(ctx context.Context) error { return c.ready(ctx, nil) }

// Ready waits until the servers can be asked in this session.
func (s *Session) Ready(ctx context.Context) error { return s.conn.ready(ctx, s) }

// Present returns the present session, or ErrGone where it has ended.
func (c *Conn) Present() (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.Ended() {
		return nil, driver.ErrGone
	}
	return c.session, nil
}

func (c *Conn) call(ctx context.Context, s *Session, call func(c *zk.Conn) error) error {
	if err := c.ready(ctx, s); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !c.start(s, "", call, func(err error) { done <- err }) {
		return driver.ErrGone
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

func (c *Conn) start(s *Session, guard string, call func(c *zk.Conn) error, answered func(err error)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || s != nil && s.Ended() {
		return false
	}
	if guard != "" {
		c.sessionWrites[guard]++
	}
	c.pool.Do(func() {
		err := call(c.library)
		if guard != "" {
			c.mu.Lock()
			uncount(c.sessionWrites, guard)
			uncount(c.staleWrites, guard)
			c.mu.Unlock()
		}
		err = classify(err)
		if err != nil && s != nil && s.Ended() {
			err = driver.ErrGone
		}
		answered(err)
	})
	return true
}

func uncount(guards map[string]int, guard string) {
	if guards[guard]--; guards[guard] <= 0 {
		delete(guards, guard)
	}
}

// ready waits until s, or any session if s is nil, can be asked: no longer than twice the
// session timeout, whatever ctx allows. That is enough to try a few servers that are stuck
// before one that is not.
func (c *Conn) ready(ctx context.Context, s *Session) error {
	var late <-chan time.Time // set when there is something to wait for
	for waited := false; ; waited = true {
		c.mu.Lock()
		ready, err := c.readyLocked(ctx, s, waited)
		changed, limit := c.changed, 2*c.timeoutLocked()
		c.mu.Unlock()
		if ready || err != nil {
			return err
		}
		if late == nil {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-late:
			return Unreachable(fmt.Errorf("no connection within %v", limit))
		}
	}
}

func (c *Conn) readyLocked(ctx context.Context, s *Session, waited bool) (bool, error) {
	switch {
	case ctx.Err() != nil && waited:
		return false, ContextError(ctx)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case c.closed, s != nil && s.Ended():
		return false, driver.ErrGone
	case c.connected:
		return true, nil
	case c.failures > c.servers:
		return false, Unreachable(c.failure)
	}
	return false, nil
}

// WaitRetry waits a moment after a failed call, and then until the servers can be asked
// again, the session has ended, or ctx has.
func (s *Session) WaitRetry(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	for s.Ready(ctx) != nil && ctx.Err() == nil && !s.Ended() {
		s.conn.mu.Lock()
		changed := s.conn.changed
		s.conn.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}
