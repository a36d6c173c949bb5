package driverkit

import (
	"sync"
	"sync/atomic"
)

// A Pool runs calls on goroutines that are kept for the next call: a new goroutine
// would have to grow its stack each time.
type Pool struct {
	jobs chan func() // unbuffered: a job is taken by an idle goroutine or not at all
	end  chan struct{}
	idle atomic.Int32
	keep int32
	busy sync.WaitGroup
	all  sync.WaitGroup
}

// NewPool returns a pool that keeps up to keep goroutines while there is nothing to do.
func NewPool(keep int) *Pool {
	return &Pool{jobs: make(chan func()), end: make(chan struct{}), keep: int32(keep)}
}

// Do runs f on a goroutine of the pool, at once. It must not be called after Close.
func (p *Pool) Do(f func()) {
	p.busy.Add(1)
	select {
	case p.jobs <- f:
	default:
		p.all.Go(func() { p.work(f) }) // ends by Close at the latest
	}
}

func (p *Pool) work(job func()) {
	for {
		p.run(job)
		if p.idle.Add(1) > p.keep {
			p.idle.Add(-1)
			return
		}
		select {
		case job = <-p.jobs:
			p.idle.Add(-1)
		case <-p.end:
			return
		}
	}
}

func (p *Pool) run(job func()) {
	defer p.busy.Done()
	job()
}

// Wait returns when no call is running.
func (p *Pool) Wait() { p.busy.Wait() }

// Close waits until no call is running, and ends the goroutines.
func (p *Pool) Close() {
	p.Wait()
	close(p.end)
	p.all.Wait()
}
