package faultdial

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A conn is one connection of a Link. It is direct, which means that calls go to raw, or
// queued: then the goroutines receive and send use raw, and calls use the queues. A fault
// makes it queued; receive makes it direct again.
type conn struct {
	link *Link
	raw  net.Conn

	queued atomic.Bool // set under mu
	// The direct calls of raw under way. A call enters before it checks queued: receive
	// and send wait until those that found the connection direct have left.
	reads, writes atomic.Int32

	mu        sync.Mutex // guards what follows
	changed   sync.Cond  // something below has changed, or a direct call has left
	faults    faults
	in, out   queue
	swallow   swallow
	timer     *time.Timer // resets a connection whose reply is swallowed
	receiving bool        // receive runs
	sending   bool        // send runs
	writing   bool        // send is in a call of raw
	lost      bool        // bytes were lost in a cut
	closed    bool        // by the process
	inClosed  bool        // CloseRead was called
	ended     bool        // raw is closed
	reset     bool
	writeErr  error // of send

	readUntil, writeUntil time.Time // the deadlines of the process
}

// longAgo is a deadline that interrupts a call of raw.
var longAgo = time.Unix(1, 0)

func newConn(l *Link, raw net.Conn) *conn {
	c := &conn{link: l, raw: raw}
	c.changed.L = &c.mu
	return c
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		if c.queued.Load() {
			if n, direct, err := c.readQueued(b); !direct {
				return n, err
			}
			continue
		}
		c.reads.Add(1)
		if c.queued.Load() {
			c.leave(&c.reads)
			continue
		}
		n, err := c.raw.Read(b)
		if err == nil && !c.queued.Load() {
			c.leave(&c.reads)
			return n, nil
		}
		c.mu.Lock()
		again := c.queued.Load() // the bytes may have come after the fault
		if again {
			c.arrivedLocked(b[:n], err)
		} else {
			err = c.errorLocked("read", err)
		}
		c.mu.Unlock()
		c.leave(&c.reads)
		if !again {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	for {
		if c.queued.Load() {
			if n, direct, err := c.writeQueued(b); !direct {
				return n, err
			}
			continue
		}
		c.writes.Add(1)
		if c.queued.Load() {
			c.leave(&c.writes)
			continue
		}
		n, err := c.raw.Write(b)
		if err == nil {
			c.leave(&c.writes)
			return n, nil
		}
		c.mu.Lock()
		interrupted := c.queued.Load() && errors.Is(err, os.ErrDeadlineExceeded)
		if interrupted && n > 0 {
			c.out.pushFront(b[n:]) // before what others have queued meanwhile
			n, err, interrupted = len(b), nil, false
		} else if !interrupted {
			err = c.errorLocked("write", err)
		}
		c.mu.Unlock()
		c.leave(&c.writes)
		if !interrupted {
			return n, err
		}
	}
}

// leave ends a direct call.
func (c *conn) leave(calls *atomic.Int32) {
	calls.Add(-1)
	if c.queued.Load() {
		c.mu.Lock()
		c.changedLocked()
		c.mu.Unlock()
	}
}

// readQueued reads what has arrived. direct says that the caller must read raw.
func (c *conn) readQueued(b []byte) (n int, direct bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.stateLocked("read", c.readUntil); err != nil {
			return 0, false, err
		}
		if c.inClosed {
			return 0, false, io.EOF
		}
		if len(b) == 0 {
			return 0, false, nil
		}
		if c.in.empty() {
			if !c.queued.Load() {
				return 0, true, nil
			}
			c.waitLocked(c.readUntil)
			continue
		}
		first := c.in.items[0]
		due := first.at.Add(c.faults.delay)
		switch {
		case first.end != nil && c.faults.cut&Replies != 0:
			c.waitLocked(c.readUntil)
		case time.Now().Before(due):
			c.waitLocked(due, c.readUntil)
		case first.end != nil:
			return 0, false, first.end
		default:
			n := c.in.read(b)
			c.changedLocked()
			return n, false, nil
		}
	}
}

// writeQueued queues bytes. direct says that the caller must write to raw.
func (c *conn) writeQueued(b []byte) (n int, direct bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.stateLocked("write", c.writeUntil); err != nil {
			return 0, false, err
		}
		switch {
		case c.out.ended:
			return 0, false, c.opError("write", syscall.EPIPE)
		case c.writeErr != nil:
			return 0, false, c.writeErr
		case !c.queued.Load():
			return 0, true, nil
		case !c.out.full():
			if len(b) > 0 {
				c.out.push(b, nil)
				c.loseRequestsLocked()
				c.changed.Broadcast()
			}
			return len(b), false, nil
		}
		c.waitLocked(c.writeUntil)
	}
}

// stateLocked returns the error of a call that cannot go on.
func (c *conn) stateLocked(op string, until time.Time) error {
	switch {
	case c.closed:
		return c.opError(op, net.ErrClosed)
	case c.reset:
		return c.opError(op, syscall.ECONNRESET)
	case !until.IsZero() && !time.Now().Before(until):
		return c.opError(op, os.ErrDeadlineExceeded)
	}
	return nil
}

// errorLocked returns the error of a direct call: a reset closes raw under it.
func (c *conn) errorLocked(op string, err error) error {
	if err != nil && c.reset && !c.closed {
		return c.opError(op, syscall.ECONNRESET)
	}
	return err
}

func (c *conn) opError(op string, err error) error {
	local := c.raw.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.raw.RemoteAddr(), Err: err}
}

// waitLocked waits for a change, until the earliest of these times that is not zero.
func (c *conn) waitLocked(times ...time.Time) {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		timer := time.AfterFunc(time.Until(first), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer timer.Stop()
	}
	c.changed.Wait()
}
