package goredis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A crew makes calls that go-redis would not come back from when their ctx ends: each
// on a hand, so that who asked for it can go. Hands are kept from call to call, since a
// goroutine that begins with a small stack has it grown and copied by every command.
type crew struct {
	tasks sync.WaitGroup // the hands

	mu     sync.Mutex // guards what follows
	idle   []*hand    // the one that worked last is the next to work
	closed bool
}

// A hand is a goroutine that makes one call at a time.
type hand struct {
	calls chan func()
	done  chan struct{} // what was asked for is done, unless it was given up
	slow  *time.Timer   // stands still between calls
	state atomic.Int32
}

// The states of a hand's call.
const (
	underWay int32 = iota
	ended
	givenUp
)

const (
	patience = 5 * time.Millisecond // how long a call waits before it looks whether its ctx has ended
	spare    = 128                  // hands without work that are kept
)

// within runs call and comes back when ctx ends. It reports whether call has ended.
func (c *crew) within(ctx context.Context, call func()) bool {
	h := c.take()
	h.calls <- call
	// To wait for the end of a ctx can cost as much as the call, and calls are
	// short: so only the long ones do.
	h.slow.Reset(patience)
	select {
	case <-h.done:
		h.slow.Stop()
		c.give(h)
		return true
	case <-h.slow.C:
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		if h.state.CompareAndSwap(underWay, givenUp) {
			return false
		}
		<-h.done
	}
	c.give(h)
	return true
}

// take finds a hand for a call.
func (c *crew) take() *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.idle) - 1; last >= 0 {
		h := c.idle[last]
		c.idle = c.idle[:last]
		h.state.Store(underWay)
		return h
	}
	h := &hand{calls: make(chan func(), 1), done: make(chan struct{}, 1), slow: time.NewTimer(time.Hour)}
	h.slow.Stop()
	c.tasks.Go(h.work) // ends by give or close, or after a call that was given up
	return h
}

func (h *hand) work() {
	for call := range h.calls {
		call()
		if !h.state.CompareAndSwap(underWay, ended) {
			return
		}
		h.done <- struct{}{}
	}
}

// give keeps a hand for the next call.
func (c *crew) give(h *hand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == spare {
		close(h.calls)
		return
	}
	c.idle = append(c.idle, h)
}

// close waits for calls that were given up; the client's own time limits end them.
func (c *crew) close() {
	c.mu.Lock()
	c.closed = true
	for _, h := range c.idle {
		close(h.calls)
	}
	c.idle = nil
	c.mu.Unlock()
	c.tasks.Wait()
}
