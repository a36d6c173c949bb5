package faultdial

import (
	"errors"
	"os"
	"time"
)

// apply makes the Link's faults those of this connection.
func (c *conn) apply(f faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if f.cut&Replies != 0 && c.in.drop(time.Now().Add(-c.faults.delay)) {
		c.loseLocked()
	}
	c.faults = f
	c.loseRequestsLocked()
	if f == (faults{}) || c.closed {
		c.changedLocked()
		return
	}
	c.queueLocked()
}

// queueLocked makes the connection queued.
func (c *conn) queueLocked() {
	c.queued.Store(true)
	c.interruptLocked()
	c.startLocked()
	c.changed.Broadcast()
}

// startLocked starts the goroutines that do not run. They end with the connection or soon
// after it is direct; nothing waits for them, since Close must not block.
func (c *conn) startLocked() {
	if !c.receiving && !c.closed {
		c.receiving = true
		go c.receive()
	}
	if !c.sending {
		c.sending = true
		go c.send()
	}
}

// interruptLocked makes calls of raw return. Those who are to go on set the deadline anew.
func (c *conn) interruptLocked() {
	_ = c.raw.SetReadDeadline(longAgo)  // these fail only where raw has ended, which ends
	_ = c.raw.SetWriteDeadline(longAgo) // the calls too
}

// changedLocked tells of a change after which the connection may be direct.
func (c *conn) changedLocked() {
	if c.queued.Load() && c.calmLocked() {
		_ = c.raw.SetReadDeadline(longAgo) // receive looks
	}
	c.changed.Broadcast()
}

// calmLocked reports whether the queues are of no more use.
func (c *conn) calmLocked() bool {
	return c.faults == (faults{}) && c.swallow == 0 && c.in.empty() && c.out.empty() && !c.out.ended &&
		!c.writing && c.writeErr == nil && c.reads.Load() == 0 && c.writes.Load() == 0
}

// receive reads raw while the connection is queued, whether or not the process reads, so
// that the time of each arrival is known.
func (c *conn) receive() {
	buf := make([]byte, 32<<10)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && !c.ended {
		switch {
		case c.calmLocked():
			c.queued.Store(false)
			_ = c.raw.SetReadDeadline(c.readUntil) // these fail only where raw has ended
			_ = c.raw.SetWriteDeadline(c.writeUntil)
			c.receiving = false
			c.changed.Broadcast()
			return
		case c.reads.Load() > 0, c.in.ended, c.in.full():
			c.changed.Wait()
		default:
			_ = c.raw.SetReadDeadline(time.Time{}) // the same
			c.mu.Unlock()
			n, err := c.raw.Read(buf)
			c.mu.Lock()
			c.arrivedLocked(buf[:n], err)
		}
	}
	c.receiving = false
}

// arrivedLocked takes what was read from raw.
func (c *conn) arrivedLocked(data []byte, err error) {
	if len(data) > 0 {
		switch {
		case c.faults.cut&Replies != 0:
			c.loseLocked()
		case c.swallow >= swallowing:
			c.swallowedLocked()
		default:
			c.in.push(data, nil)
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !c.in.ended {
		c.in.push(nil, err)
	}
	c.changed.Broadcast()
}

// loseLocked notes that bytes were lost in a cut.
func (c *conn) loseLocked() {
	if !c.lost {
		c.lost = true
		c.link.lost.Add(1)
	}
}

// loseRequestsLocked notes that what is queued for the server is lost, if requests are cut.
// It stays in the queue, so that the process has to wait when that is full.
func (c *conn) loseRequestsLocked() {
	if c.faults.cut&Requests != 0 && !c.out.empty() {
		c.loseLocked()
	}
}

// send writes to raw what the process has queued. It outlives the process's Close while
// something is under way.
func (c *conn) send() {
	c.mu.Lock()
	for c.sendOneLocked() {
	}
	c.sending = false
	gone := c.closed && c.ended
	c.mu.Unlock()
	if gone {
		c.link.forget(c)
	}
}

// sendOneLocked writes the first item when it is due, or waits for a change. It returns
// false when there is nothing left to do.
func (c *conn) sendOneLocked() (more bool) {
	switch {
	case c.ended:
		return false
	case c.writes.Load() > 0:
		c.changed.Wait()
	case c.faults.cut&Requests != 0:
		c.loseRequestsLocked()
		if c.closed {
			return false // heal goes on from here
		}
		c.changed.Wait()
	case c.out.empty():
		if c.closed {
			_ = c.endLocked() // nobody can be told
			return false
		}
		if !c.queued.Load() {
			return false
		}
		c.changed.Wait()
	default:
		if due := c.out.items[0].at.Add(c.faults.delay); time.Now().Before(due) {
			c.waitLocked(due)
			return true
		}
		c.writeLocked(c.out.pop())
	}
	return true
}

// writeLocked writes one item to raw. The mutex is free meanwhile.
func (c *conn) writeLocked(it item) {
	if it.end != nil {
		_ = c.raw.(interface{ CloseWrite() error }).CloseWrite() // fails only where raw has ended
		return
	}
	c.requestLocked()
	_ = c.raw.SetWriteDeadline(time.Time{}) // the same
	c.writing = true
	c.mu.Unlock()
	n, err := c.raw.Write(it.data)
	c.mu.Lock()
	c.writing = false
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.out.pushFront(it.data[n:])
	case err != nil:
		c.writeErr = err
		c.out.clear()
	}
	c.changedLocked()
}

// heal ends all faults, and reports whether the Link may forget the connection.
func (c *conn) heal() (gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = faults{}
	if c.swallow == swallowNext {
		c.swallow = 0
	}
	switch {
	case c.ended:
	case c.lost:
		c.resetLocked()
	case c.closed && c.out.empty() && !c.writing:
		_ = c.endLocked() // nobody can be told
	case c.closed:
		c.startLocked()
	}
	c.changedLocked()
	return c.closed && c.ended
}

// endLocked closes raw.
func (c *conn) endLocked() error {
	if c.ended {
		return nil
	}
	c.ended = true
	c.changed.Broadcast()
	return c.raw.Close()
}

// resetNow ends the connection with a reset.
func (c *conn) resetNow() {
	c.mu.Lock()
	c.resetLocked()
	gone := c.closed
	c.mu.Unlock()
	if gone {
		c.link.forget(c)
	}
}

func (c *conn) resetLocked() {
	if c.ended {
		return
	}
	c.ended, c.reset = true, true
	c.in.clear()
	c.out.clear()
	c.link.reset.Add(1)
	closeHard(c.raw)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.changed.Broadcast()
}
