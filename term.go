package pawl

import (
	"context"
	"sync"
	"sync/atomic"
)

// A term is the part of a lease that its session knows: it ends once, for one
// reason, and its context with it. A claim has one term for each lease of it.
type term struct {
	caller context.Context // whose values the lease's context has, without its end
	whole  *term           // of the lease of several names that this one is a part of
	why    atomic.Pointer[error]

	within *term     // of the lease of the same lock that this one is nested in
	shared bool      // nested leases for reading stand beside each other
	nested holdCount // guarded by the session's mutex

	mu     sync.Mutex      // guards the following
	ctx    context.Context // made by context; nil: nobody has asked
	cancel context.CancelCauseFunc
}

// released is what every term points to that ended by Unlock.
var released = ErrReleased

// end ends the term, once, and reports whether this call did.
func (t *term) end(why error) bool {
	at := &released
	if why != ErrReleased { //nolint:errorlint // another one is kept as it is
		other := why
		at = &other
	}
	if !t.why.CompareAndSwap(nil, at) {
		return false
	}
	t.endContext(why)
	if t.whole != nil {
		t.whole.end(why)
	}
	return true
}

// ended returns why the term ended, nil while it has not.
func (t *term) ended() error {
	if why := t.why.Load(); why != nil {
		return *why
	}
	return nil
}

// context returns the term's context. Most leases end before anybody waits for
// that, so it is made when it is first asked for.
func (t *term) context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(t.caller))
		if why := t.why.Load(); why != nil {
			t.cancel(*why)
		}
	}
	return t.ctx
}

// endContext ends the context, if there is one.
func (t *term) endContext(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx != nil {
		t.cancel(why)
	}
}

// unnestLocked gives up the term's place inside the term it is nested in, once the
// term and all terms nested in it have ended; and so on outwards.
func (t *term) unnestLocked() {
	for ; t.within != nil && t.why.Load() != nil && t.nested.empty(); t = t.within {
		t.within.nested.leaveLocked(t.shared)
	}
}

// wakeLocked wakes the callers that wait for a place inside the term, or inside one
// of those that it is nested in, also if that one was given back before.
func (t *term) wakeLocked() {
	for ; t != nil; t = t.within {
		t.nested.wakeLocked()
	}
}

// A holdCount counts the leases that are nested in one lease. It is a small lock of
// its own, one exclusive lease or any number of shared ones, so that two goroutines
// with the same context still exclude each other.
type holdCount struct {
	exclusive bool
	shared    int
	changed   chan struct{} // closed when a nested lease ends; made by the first caller that waits
}

func (n *holdCount) empty() bool { return !n.exclusive && n.shared == 0 }

// enterLocked counts one more lease; false says to wait for changed.
func (n *holdCount) enterLocked(shared bool) bool {
	switch {
	case shared && !n.exclusive:
		n.shared++
		return true
	case n.empty():
		n.exclusive = true
		return true
	}
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return false
}

func (n *holdCount) leaveLocked(shared bool) {
	if shared {
		n.shared--
	} else {
		n.exclusive = false
	}
	n.wakeLocked()
}

func (n *holdCount) wakeLocked() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
