package faultdial

import (
	"errors"
	"io"
	"net"
	"time"
)

// Close implements net.Conn. Under a fault the server learns of it later: after what is
// under way, and not before Heal if requests are cut.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	var err error
	switch {
	case c.ended:
	case c.faults.cut&Requests == 0 && c.out.empty() && !c.writing:
		err = c.endLocked()
	default: // send or heal ends it
		c.interruptLocked()
	}
	c.changed.Broadcast()
	gone := c.ended
	c.mu.Unlock()
	if gone {
		c.link.forget(c)
	}
	return err
}

// CloseWrite ends the requests, after those that are under way.
func (c *conn) CloseWrite() error {
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok {
		return c.opError("close", errors.ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stateLocked("close", time.Time{}); err != nil {
		return err
	}
	if !c.queued.Load() {
		return half.CloseWrite()
	}
	if !c.out.ended {
		c.out.push(nil, io.EOF)
		c.changed.Broadcast()
	}
	return nil
}

// CloseRead ends the replies for this process.
func (c *conn) CloseRead() error {
	half, ok := c.raw.(interface{ CloseRead() error })
	if !ok {
		return c.opError("close", errors.ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stateLocked("close", time.Time{}); err != nil {
		return err
	}
	c.inClosed = true
	c.changed.Broadcast()
	return half.CloseRead()
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, c.raw.SetDeadline, &c.readUntil, &c.writeUntil)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, c.raw.SetReadDeadline, &c.readUntil)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, c.raw.SetWriteDeadline, &c.writeUntil)
}

// setDeadline notes deadlines of the process. Those of raw are the same only while the
// connection is direct.
func (c *conn) setDeadline(t time.Time, onRaw func(time.Time) error, deadlines ...*time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range deadlines {
		*d = t
	}
	if c.queued.Load() || c.ended {
		c.changed.Broadcast()
		return nil
	}
	return onRaw(t)
}
