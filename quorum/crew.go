package quorum

import (
	"context"
	"sync"
	"sync/atomic"
)

// A crew runs the calls of a session on goroutines that are kept for the next
// call: a new one would have to grow its stack each time.
type crew struct {
	jobs chan func() // unbuffered: taken by one who waits, or not at all
	end  chan struct{}
	idle atomic.Int32
	keep int32 // how many may wait
	busy sync.WaitGroup
	all  sync.WaitGroup
}

func newCrew(keep int) *crew {
	return &crew{jobs: make(chan func()), end: make(chan struct{}), keep: int32(keep)}
}

// do runs f on a goroutine of the crew. It must not be called after close.
func (c *crew) do(f func()) {
	c.busy.Add(1)
	job := func() {
		defer c.busy.Done()
		f()
	}
	select {
	case c.jobs <- job:
	default:
		c.all.Go(func() { c.work(job) })
	}
}

func (c *crew) work(job func()) {
	for {
		job()
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

// wait returns when no job is running.
func (c *crew) wait() { c.busy.Wait() }

// close ends the goroutines, once no job is running.
func (c *crew) close() {
	c.wait()
	close(c.end)
	c.all.Wait()
}

// A group is calls at several nodes that have one limit in time.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   atomic.Int32
}

// done is told of each call that has come back.
func (g *group) done() {
	if g.left.Add(-1) == 0 {
		g.cancel()
	}
}
