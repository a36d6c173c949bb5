package pawl

import (
	"context"
	"sync"
	"time"
)

// leaseContext ends with the lease. Err is computed when asked, so it is right
// even on a machine that just woke up and whose timers have not fired yet. Most
// leases end before anybody waits for that, so the context is made when asked for.
type leaseContext struct {
	lease  *Lease
	caller context.Context // whose values it has; its end does not concern it

	mu     sync.Mutex      // guards what follows
	full   context.Context // made by fill; nil: nobody has asked
	cancel context.CancelCauseFunc
}

// ownerKey is the context key of the innermost lease.
type ownerKey struct{}

// Deadline returns none: that of a lease moves.
func (x *leaseContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the lease ends.
func (x *leaseContext) Done() <-chan struct{} { return x.fill().Done() }

// Err reports whether the lease has ended, by the clock if need be.
func (x *leaseContext) Err() error {
	x.lease.check()
	why := x.lease.over.Load()
	if why == nil {
		return nil
	}
	x.end(*why) // who ended the lease may have been stopped before it came to this
	return x.fill().Err()
}

// Value returns the lease itself to this package, and what ctx carries to others.
func (x *leaseContext) Value(key any) any {
	if key == (ownerKey{}) {
		return x.lease
	}
	return x.fill().Value(key)
}

// fill makes the context.
func (x *leaseContext) fill() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full == nil {
		x.full, x.cancel = context.WithCancelCause(context.WithoutCancel(x.caller))
		if why := x.lease.over.Load(); why != nil {
			x.cancel(*why)
		}
	}
	return x.full
}

// end ends the context, if there is one, with the lease's own end.
func (x *leaseContext) end(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full != nil {
		x.cancel(why)
	}
}

// workContext is what Do runs its function with: it ends with the context that Do
// was called with, by that one's own error, and with the lease.
type workContext struct {
	context.Context // the caller's, ended also by cancel
	cancel          context.CancelCauseFunc
	lease           *Lease
}

// Err reports whether the lease or the caller's context has ended, by the clock if
// need be.
func (x *workContext) Err() error {
	if x.Context.Err() == nil && x.lease.ctx.Err() != nil {
		x.cancel(context.Cause(&x.lease.ctx)) // whoever does it may not have come to this
	}
	return x.Context.Err()
}

// Value returns the lease itself to this package, and what ctx carries to others.
func (x *workContext) Value(key any) any {
	if key == (ownerKey{}) {
		return x.lease
	}
	return x.Context.Value(key)
}
