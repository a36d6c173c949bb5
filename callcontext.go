package pawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errWaited is the cause of a wait that WithWait ended.
var errWaited = errors.New("waited long enough")

// maxRepeats bounds how often a call is repeated when the caller does not want
// to wait, or when the store has never answered: a wrong address must not look
// like a busy lock. One lost reply is forgiven all the same.
const maxRepeats = 2

// maxTry bounds how long a caller that does not want to wait is kept by a store that
// does not answer, where its TTL is longer.
const maxTry = 10 * time.Second

// tryLimit bounds one call of a caller that does not want to wait: with its repeats it
// takes a TTL or maxTry, but no call has less than a second where the TTL is longer.
func tryLimit(ttl time.Duration) time.Duration {
	return max(min(ttl, maxTry)/(1+maxRepeats), min(ttl, time.Second))
}

// A callContext is the context of one call to an engine, or of a wait: it ends with
// its parent, at a time of its own, and when the client is closed. Nearly all calls
// return before anybody waits for that end, and registering with the parent and
// setting a timer cost as much as everything else that the core does for a free
// lock. So the real context is made when Done is first asked for.
type callContext struct {
	context.Context                 // the parent
	until           time.Time       // zero: no time of its own
	why             error           // the cause of its end at that time; nil: the usual one
	closing         context.Context // the client's, which ends with cause ErrClosed; nil: Close does not end the call

	ended atomic.Bool                 // by end
	made  atomic.Pointer[madeContext] // set by make; nil: nobody has asked
	mu    sync.Mutex                  // held by make
}

// A madeContext is the real context of a callContext.
type madeContext struct {
	context.Context
	undo func() // may be called again
}

// callUntil returns a context that ends at the given time.
func callUntil(parent context.Context, until time.Time) *callContext {
	return &callContext{Context: parent, until: until}
}

// end ends the context: the call has returned.
func (c *callContext) end() {
	c.ended.Store(true)
	if m := c.made.Load(); m != nil {
		m.undo()
	}
}

// Deadline returns the earlier of the parent's and its own.
func (c *callContext) Deadline() (time.Time, bool) {
	at, ok := c.Context.Deadline()
	if c.until.IsZero() || ok && at.Before(c.until) {
		return at, ok
	}
	return c.until, true
}

// Done returns a channel that is closed when the context ends.
func (c *callContext) Done() <-chan struct{} { return c.make().Done() }

// ends returns two channels, one of which is closed when the context ends: a Done
// that makes no context where the wait has no time of its own.
func (c *callContext) ends() (one, other <-chan struct{}) {
	if !c.until.IsZero() || c.closing == nil {
		return c.Done(), nil
	}
	return c.Context.Done(), c.closing.Done()
}

// Err reports whether the context has ended.
func (c *callContext) Err() error {
	if m := c.made.Load(); m != nil {
		return m.Err()
	}
	if !c.over() {
		return nil
	}
	return c.make().Err()
}

// over reports whether a context that is not made has ended.
func (c *callContext) over() bool {
	return c.ended.Load() || c.Context.Err() != nil || c.closing != nil && c.closing.Err() != nil ||
		!c.until.IsZero() && !time.Now().Before(c.until)
}

// Value returns the parent's values. Package context asks for the cause with a key of
// its own, which only the made context answers.
func (c *callContext) Value(key any) any {
	if c.Err() != nil {
		return c.make().Value(key)
	}
	if m := c.made.Load(); m != nil {
		return m.Value(key)
	}
	return c.Context.Value(key)
}

// make makes the real context.
func (c *callContext) make() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.made.Load(); m != nil {
		return m
	}
	ctx, limit := c.Context, context.CancelFunc(func() {})
	if !c.until.IsZero() {
		ctx, limit = context.WithDeadlineCause(ctx, c.until, c.why)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if c.closing != nil {
		if c.closing.Err() != nil {
			cancel(context.Cause(c.closing)) // AfterFunc would do it in a goroutine, a moment later
		}
		stop = context.AfterFunc(c.closing, func() { cancel(context.Cause(c.closing)) })
	}
	m := &madeContext{ctx, func() {
		stop()
		cancel(nil)
		limit()
	}}
	if c.ended.Load() {
		m.undo()
	}
	c.made.Store(m)
	if c.ended.Load() { // end came meanwhile and did not see m
		m.undo()
	}
	return m
}

// requireContext panics where context.WithCancel would, before anything has been done.
func requireContext(ctx context.Context) {
	if ctx == nil {
		panic("pawl: nil context")
	}
}

// pause waits for d, or until ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hasEnded reports whether ctx has ended, also where its timer is only about to fire:
// a connection with the same deadline may be the first to notice.
func hasEnded(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) {
		pause(ctx, time.Second) // one that keeps no deadline does not end
	}
	return ctx.Err() != nil
}
