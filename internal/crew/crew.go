// Package crew runs calls on goroutines that are kept for the next call: a new one
// would have to grow its stack each time.
package crew

import (
	"sync"
	"sync/atomic"
)

// A Crew is goroutines that wait for calls to run.
type Crew struct {
	jobs chan func() // unbuffered: taken by one who waits, or not at all
	end  chan struct{}
	idle atomic.Int32
	keep int32
	busy sync.WaitGroup
	all  sync.WaitGroup
}

// New returns a crew of which up to keep wait when there is nothing to do.
func New(keep int) *Crew {
	return &Crew{jobs: make(chan func()), end: make(chan struct{}), keep: int32(keep)}
}

// Do runs f on a goroutine of the crew, at once. It must not be called after Close.
func (c *Crew) Do(f func()) {
	c.busy.Add(1)
	select {
	case c.jobs <- f:
	default:
		c.all.Go(func() { c.work(f) }) // ends by Close at the latest
	}
}

func (c *Crew) work(job func()) {
	for {
		c.run(job)
		if c.idle.Add(1) > c.keep {
			c.idle.Add(-1)
			return
		}
		select {
		case job = <-c.jobs:
			c.idle.Add(-1)
		case <-c.end:
			return
		}
	}
}

func (c *Crew) run(job func()) {
	defer c.busy.Done()
	job()
}

// Wait returns when no call is running.
func (c *Crew) Wait() { c.busy.Wait() }

// Close waits until no call is running, and ends the goroutines.
func (c *Crew) Close() {
	c.Wait()
	close(c.end)
	c.all.Wait()
}
