package pawl

import (
	"context"
)

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
	for {
		s.mu.Lock()
		if own.cl.state != held {
			s.mu.Unlock()
			return nil, errLate
		}
		n := &own.nest
		if n.enterLocked(want) {
			s.mu.Unlock()
			return k.nested(ctx, own, chain, want)
		}
		changed := n.changed
		s.mu.Unlock()
		if try {
			return nil, own.inTheWay(ErrHeld)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, own.inTheWay(ctx.Err())
		}
	}
}

// nested makes the lease whose room in own's nest is taken already.
func (k *lock) nested(ctx context.Context, own, chain *Lease, want lockKind) (*Lease, error) {
	l := newLease(ctx, k, own.cl, chain)
	if l == nil {
		return nil, errLate // with the claim lost, nobody counts the nest any more
	}
	l.within, l.kind = own, want
	return l, nil
}

func (l *Lease) inTheWay(cause error) error {
	e, _ := l.cl.entry()
	return &HeldError{Holder: &e, Ahead: -1, Err: cause}
}

// unnestLocked makes room in the nest that l was in.
func (l *Lease) unnestLocked() {
	if l.within == nil {
		return
	}
	n := &l.within.nest
	if l.kind == exclusive {
		n.exclusive = false
	} else {
		n.shared--
	}
	n.wakeLocked()
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
