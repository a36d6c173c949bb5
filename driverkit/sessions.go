package driverkit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// closeLimit bounds Close: a store that does not answer keeps the claims until they
// expire.
const closeLimit = 2 * time.Second

// Sessions are the open sessions of an engine and the goroutines that it has started.
type Sessions[S session] struct {
	// AtClose is called once, by Close, when the sessions and the goroutines have ended. It
	// may be nil, and is set before the first use.
	AtClose func() error

	errClosed error
	begun     context.Context // ends when Close has ended the sessions
	finish    context.CancelFunc
	tasks     sync.WaitGroup

	mu     sync.RWMutex // guards what follows
	open   map[S]struct{}
	byID   map[string]S
	closed bool

	done chan struct{} // closed when Close is done
}

// A session is a [driver.Session] that can be compared, such as a pointer.
type session interface {
	comparable
	Close(ctx context.Context) error
}

// NewSessions returns no sessions yet, of an engine whose errors begin with name.
func NewSessions[S session](name string) *Sessions[S] {
	r := &Sessions[S]{errClosed: errors.New(name + ": engine is closed"), open: map[S]struct{}{}, byID: map[string]S{}, done: make(chan struct{})}
	r.begun, r.finish = context.WithCancel(context.Background())
	return r
}

// Begin says whether the engine takes a call: it returns ctx's error, or that the engine
// is closed.
func (r *Sessions[S]) Begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return r.errClosed
	}
	return nil
}

// Add adds a session that was opened, or returns that the engine is closed.
func (r *Sessions[S]) Add(id string, s S) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.errClosed
	}
	r.open[s] = struct{}{}
	r.byID[id] = s
	return nil
}

// Remove takes out a session that is being closed. It may be called twice.
func (r *Sessions[S]) Remove(id string, s S) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, s)
	if r.byID[id] == s {
		delete(r.byID, id)
	}
}

// Find returns the open session of an ID.
func (r *Sessions[S]) Find(id string) (s S, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok = r.byID[id]
	return s, ok
}

// All returns the open sessions.
func (r *Sessions[S]) All() []S {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.open))
}

// Go starts a goroutine of the engine's, whose ctx ends when Close has ended the
// sessions; Close waits for it. From then on Go returns that the engine is closed, and
// starts nothing: before, the Close of a session may still start one.
func (r *Sessions[S]) Go(task func(ctx context.Context)) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.begun.Err() != nil {
		return r.errClosed
	}
	r.tasks.Go(func() { task(r.begun) })
	return nil
}

// Close closes the sessions that are still open, ends the goroutines that Go has started
// and waits for them, and calls AtClose. The errors are reported once: later calls wait
// for the first and return nil.
func (r *Sessions[S]) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		<-r.done
		return nil
	}
	r.closed = true
	open := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	defer close(r.done)
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, s := range open { // all at once: a stuck session does not use up the time of the others
		closing.Go(func() { errs[i] = s.Close(ctx) })
	}
	closing.Wait()
	r.mu.Lock() // Go starts none after this
	r.finish()
	r.mu.Unlock()
	r.tasks.Wait()
	if r.AtClose != nil {
		errs = append(errs, r.AtClose())
	}
	return driver.Join(errs...)
}
