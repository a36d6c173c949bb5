package pawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A call is the context of one call to an engine, or of a wait: it ends with its
// parent, at a time of its own, and when the client is closed. Nearly all calls
// are over before anybody waits for that end, and to tell a parent of its child
// and to set a timer costs as much as everything else that the core does for a
// free lock. So the context is made when somebody asks for Done.
type call struct {
	context.Context                 // the parent
	until           time.Time       // zero: it has no time of its own
	why             error           // the cause of its end at that time; nil: the usual one
	closing         context.Context // the client's, which ends with cause ErrClosed; nil: that does not concern it

	ended atomic.Bool          // by end
	full  atomic.Pointer[full] // made by fill; nil: nobody has asked
	mu    sync.Mutex           // held by fill
}

// A full is the context that a call stands for.
type full struct {
	context.Context
	undo func() // may be called again
}

// newCall returns a call that ends at the given time.
func newCall(parent context.Context, until time.Time) *call {
	return &call{Context: parent, until: until}
}

// end ends the call: it is over, or nobody waits for it any more.
func (c *call) end() {
	c.ended.Store(true)
	if f := c.full.Load(); f != nil {
		f.undo()
	}
}

// Deadline returns the earlier of the parent's and its own.
func (c *call) Deadline() (time.Time, bool) {
	at, ok := c.Context.Deadline()
	if c.until.IsZero() || ok && at.Before(c.until) {
		return at, ok
	}
	return c.until, true
}

// Done returns a channel that is closed when the call ends.
func (c *call) Done() <-chan struct{} { return c.fill().Done() }

// ends returns two channels, one of which is closed when the call ends: Done for
// a wait that is mostly short.
func (c *call) ends() (one, other <-chan struct{}) {
	if !c.until.IsZero() || c.closing == nil {
		return c.Done(), nil
	}
	return c.Context.Done(), c.closing.Done()
}

// Err reports whether the call has ended.
func (c *call) Err() error {
	if f := c.full.Load(); f != nil {
		return f.Err()
	}
	if !c.over() {
		return nil
	}
	return c.fill().Err()
}

// over reports whether a call that is not filled has ended.
func (c *call) over() bool {
	return c.ended.Load() || c.Context.Err() != nil || c.closing != nil && c.closing.Err() != nil ||
		!c.until.IsZero() && !time.Now().Before(c.until)
}

// Value returns what the parent carries. To package context, which asks for the
// cause by it, it is a context of that package.
func (c *call) Value(key any) any {
	if c.Err() != nil {
		return c.fill().Value(key)
	}
	if f := c.full.Load(); f != nil {
		return f.Value(key)
	}
	return c.Context.Value(key)
}

// fill makes the context.
func (c *call) fill() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.full.Load(); f != nil {
		return f
	}
	ctx, limit := c.Context, context.CancelFunc(func() {})
	if !c.until.IsZero() {
		ctx, limit = context.WithDeadlineCause(ctx, c.until, c.why)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if c.closing != nil {
		if c.closing.Err() != nil {
			cancel(context.Cause(c.closing)) // not in a moment: now
		}
		stop = context.AfterFunc(c.closing, func() { cancel(context.Cause(c.closing)) })
	}
	f := &full{ctx, func() {
		stop()
		cancel(nil)
		limit()
	}}
	if c.ended.Load() {
		f.undo()
	}
	c.full.Store(f)
	if c.ended.Load() { // end came meanwhile, and did not see it
		f.undo()
	}
	return f
}
