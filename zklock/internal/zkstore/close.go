package zkstore

import "time"

// Close ends the session, if the servers can be reached, and the connection, and waits for
// all goroutines. It reports whether the servers confirmed the end. It is called once.
func (c *Conn) Close() bool {
	c.mu.Lock()
	c.closed, c.noReconnect = true, true
	connected := c.connected
	c.endSessionLocked()
	c.changeLocked()
	c.mu.Unlock()
	if connected {
		c.drain()
	} else {
		c.cancel() // ends a dial
		c.Reconnect()
	}
	c.library.Close() // waits for an answer, for a second at most
	c.cancel()
	c.Reconnect()
	for range c.events {
	}
	c.pool.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeConfirmed
}

// drain waits a moment for calls under way. The library answers a call that its Close
// overtakes with an error and reads the reply so far, while its other goroutine may still
// be writing there.
func (c *Conn) drain() {
	drained := make(chan struct{})
	go func() { // ends soon after the connection does, at the latest
		c.pool.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(time.Second):
	}
}

// Release ends what was begun on a connection of the user's, which stays open.
func (c *Conn) Release() {
	c.mu.Lock()
	c.closed = true
	c.changeLocked()
	c.watches.fireAll()
	c.mu.Unlock()
	c.pool.Close()
}
