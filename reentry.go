package pawl

import (
	"context"
	"errors"
)

// errNoOwner says that no lease to nest in is left.
var errNoOwner = errors.New("no owner")

// owner returns the innermost live lease on this client's name that ctx carries.
// The lease's own state decides: a context that lives on after it, or was
// detached from it, owns nothing. Permits of a semaphore own nothing either.
func (k *lock) owner(ctx context.Context) (own, chain *Lease) {
	chain, _ = ctx.Value(ownerKey{}).(*Lease)
	for l := chain; l != nil; l = l.outer {
		if l.cl != nil && l.c == k.c && l.name == k.name && l.mode != Counted && l.Err() == nil {
			return l, chain
		}
	}
	return nil, chain
}

// nest locks a name that the caller's own context holds already. errNoOwner says
// that the context's leases were all given back meanwhile.
func (k *lock) nest(ctx, wait context.Context, own, chain *Lease, need int, try bool) (*Lease, error) {
	for ; own != nil; own, _ = k.owner(ctx) {
		l := k.lease(ctx, own.cl, chain)
		l.within, l.mode = &own.term, k.mode(need)
		l.shared = l.mode == Shared
		err := k.nestIn(wait, own, l, try)
		if errors.Is(err, errNoOwner) {
			continue
		}
		switch {
		case err == nil:
			return l, nil
		case errors.Is(context.Cause(wait), errWaited):
			err = own.heldError(ErrHeld)
		}
		return nil, err
	}
	return nil, errNoOwner
}

// nestIn makes l a lease of the same claim as own, inside own.
func (k *lock) nestIn(wait context.Context, own, l *Lease, try bool) error {
	switch {
	case own.mode == Shared && l.mode != Shared:
		return ErrUpgrade
	case !k.o.reentry || k.limit != own.cl.Limit:
		return ErrReentry
	}
	for {
		entered, changed, err := own.cl.s.enterNested(own, l)
		switch {
		case entered || err != nil:
			return err
		case try:
			return own.heldError(ErrHeld)
		}
		select {
		case <-changed:
		case <-wait.Done():
			if errors.Is(context.Cause(wait), ErrClosed) {
				return ErrClosed
			}
			return own.heldError(wait.Err())
		}
	}
}

// enterNested makes l a lease of own's claim, if own has room for it: else changed
// is closed when it may have.
func (s *session) enterNested(own, l *Lease) (entered bool, changed <-chan struct{}, err error) {
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Own may have been given back or lost while the caller waited, and the claim may
	// be another lease's by now. While own has not ended its term is among the
	// claim's, so that the claim cannot be given back before l's is among them too.
	switch why := own.ended(); {
	case errors.Is(why, ErrReleased):
		return false, nil, errNoOwner
	case errors.Is(why, ErrLost):
		return false, nil, why
	case why != nil || !own.cl.HeldAt(now):
		return false, nil, errLate
	}
	if !own.nested.enterLocked(l.shared) {
		return false, own.nested.changed, nil
	}
	own.cl.addTermLocked(l, now)
	return true, nil, nil
}

// heldError says that the caller's own lease is in the way.
func (l *Lease) heldError(cause error) error {
	held := &HeldError{Ahead: -1, Err: cause}
	if e, ok := l.cl.entry(); ok {
		held.Holder = &e
	}
	return held
}
