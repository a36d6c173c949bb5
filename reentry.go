package pawl

import (
	"context"
	"errors"
)

// errNoOwner says that the lease to nest in is over.
var errNoOwner = errors.New("no owner")

// A nest counts the leases that are nested in one lease. It is a small lock of
// its own: one exclusive nested lease, or any number of shared ones, so that two
// goroutines with the same context still exclude each other.
type nest struct {
	exclusive bool
	shared    int
	changed   chan struct{} // closed when a nested lease ends; made by whoever waits
}

// owner returns the innermost live lease on this client's name that ctx carries.
// The lease's own state decides: a context that lives on after it, or was
// detached from it, owns nothing. Permits of a semaphore own nothing either.
func (k *lock) owner(ctx context.Context) (own, chain *Lease) {
	chain, _ = ctx.Value(ownerKey{}).(*Lease)
	for l := chain; l != nil; l = l.outer {
		if l.cl != nil && l.c == k.c && l.name == k.name && l.kind != counted && l.Err() == nil {
			return l, chain
		}
	}
	return nil, chain
}

// again locks a name that the caller's own context holds already.
func (k *lock) again(ctx context.Context, own, chain *Lease, need int, try bool) (*Lease, error) {
	want := k.kind(need)
	switch {
	case own.kind == shared && want != shared:
		return nil, ErrUpgrade
	case !k.o.reentry || k.limit != own.cl.Limit:
		return nil, ErrReentry
	}
	s := own.cl.s
	l := k.lease(ctx, own.cl, chain)
	l.within, l.kind = own, want
	for {
		now := s.c.now()
		s.mu.Lock()
		// Given back or lost while we waited: the claim may be another's by now.
		// While own is not over it is among the claim's leases, so that the claim
		// cannot be given back before l is among them too.
		if why := own.over.Load(); why != nil && errors.Is(*why, ErrReleased) {
			s.mu.Unlock()
			return nil, errNoOwner
		} else if why != nil || own.cl.state != held || now >= own.cl.deadline() {
			s.mu.Unlock()
			if why != nil && errors.Is(*why, ErrLost) {
				return nil, *why
			}
			return nil, errLate
		}
		n := &own.nest
		if n.enterLocked(want) {
			own.cl.attachLocked(l, now)
			s.mu.Unlock()
			return l, nil
		}
		changed := n.changed
		s.mu.Unlock()
		if try {
			return nil, own.inTheWay(ErrHeld)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrClosed) {
				return nil, ErrClosed
			}
			return nil, own.inTheWay(ctx.Err())
		}
	}
}

func (l *Lease) inTheWay(cause error) error {
	held := &HeldError{Ahead: -1, Err: cause}
	if e, ok := l.cl.entry(); ok {
		held.Holder = &e
	}
	return held
}

// unnestLocked makes room in the nest that l was in, once l and all that was
// nested in it are over; and so on outwards.
func (l *Lease) unnestLocked() {
	for ; l.within != nil && l.over.Load() != nil && !l.nest.exclusive && l.nest.shared == 0; l = l.within {
		n := &l.within.nest
		if l.kind == exclusive {
			n.exclusive = false
		} else {
			n.shared--
		}
		n.wakeLocked()
	}
}

// enterLocked takes room for one more, or sees to it that changed will tell.
func (n *nest) enterLocked(want lockKind) bool {
	switch {
	case !n.exclusive && want == shared:
		n.shared++
		return true
	case !n.exclusive && n.shared == 0:
		n.exclusive = true
		return true
	}
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return false
}

func (n *nest) wakeLocked() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
