package main

import (
	"sync"
	"time"
)

// A clerk writes what is given to it, in order, and whoever gave it goes on: a
// reader may have stopped reading, as a pager does at the end of its page and a
// terminal after Ctrl-S, and the lock must be watched all the same.
type clerk struct {
	mu   sync.Mutex    // guards last
	last chan struct{} // closed when everything was written; nil: there was nothing
}

// add has write called when everything before it was written.
func (c *clerk) add(write func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, done := c.last, make(chan struct{})
	c.last = done
	go func() { // wait waits for it
		defer close(done)
		if before != nil {
			<-before
		}
		write()
	}()
}

// wait returns when everything was written.
func (c *clerk) wait() {
	if last := c.written(); last != nil {
		<-last
	}
}

// within waits until everything was written, but no longer than d.
func (c *clerk) within(d time.Duration) {
	last := c.written()
	if last == nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-last:
	case <-timer.C:
	}
}

func (c *clerk) written() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
