package etcdstore

import (
	"context"
	"sync"
)

// tasks are the goroutines of a store.
type tasks struct {
	ctx    context.Context // ends when close is called
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex // guards closed, and that all grows only before close
	closed bool
}

func newTasks() *tasks {
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs f in a goroutine that wait waits for. It does nothing and returns false
// after close.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.all.Go(f)
	}
	return !t.closed
}

func (t *tasks) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
}

func (t *tasks) wait() { t.all.Wait() }

// A SharedCall is a question to the cluster that one goroutine asks for all callers
// that need its answer. No caller's ctx cancels it. The zero value is ready for use.
type SharedCall struct {
	mu   sync.Mutex    // guards done
	done chan struct{} // closed when the running call is over; nil: none is running
}

// start runs f, unless it is running already, and returns a channel that is closed at
// its end. After close the channel is closed at once.
func (c *SharedCall) start(t *tasks, f func(ctx context.Context)) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	done := make(chan struct{})
	started := t.start(func() {
		f(t.ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done = nil
		close(done)
	})
	if started {
		c.done = done
	} else {
		close(done)
	}
	return done
}
