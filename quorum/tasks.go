package quorum

import (
	"context"
	"sync"
)

// tasks is the goroutines of an engine, which its Close ends and waits for.
type tasks struct {
	ctx    context.Context // ends with stop
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex // guards stopped
	stopped bool
}

func newTasks() *tasks {
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs f on a goroutine. It reports false after stop.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.all.Go(f)
	}
	return !t.stopped
}

// stop ends the context of the goroutines and lets no new ones start.
func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
}

// wait returns when all goroutines have ended.
func (t *tasks) wait() { t.all.Wait() }
