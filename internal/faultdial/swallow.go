package faultdial

import "time"

// swallow is how far a connection is with SwallowReply.
type swallow uint8

const (
	swallowNext swallow = iota + 1 // the reply to the next request
	swallowing                     // the request was sent, and nothing that comes is delivered
	swallowed                      // something came
)

// The times until a connection whose reply is swallowed is reset: after the first bytes
// came, which may be another message than the reply, so that the reset does not overtake
// the request; and after the request, where it has no reply.
const (
	afterReply   = 50 * time.Millisecond
	afterRequest = time.Second
)

// swallowNext makes the connection swallow the reply to its next request.
func (c *conn) swallowNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.closed || c.swallow != 0 {
		return
	}
	c.swallow = swallowNext
	c.queueLocked()
}

// requestLocked is called before a request is written, so that no reply to it can come
// earlier.
func (c *conn) requestLocked() {
	if c.swallow == swallowNext && !c.closed {
		c.swallow = swallowing
		c.timer = time.AfterFunc(afterRequest, c.resetNow) // Close and a reset stop it
	}
}

// swallowedLocked notes that bytes were swallowed.
func (c *conn) swallowedLocked() {
	if c.swallow == swallowing {
		c.swallow = swallowed
		c.link.swallowed.Add(1)
		c.timer.Reset(afterReply)
	}
}
