package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LockAll takes several names, all or none, and returns one lease for them: it
// ends when any of them is lost. A name given twice is taken once.
//
// Names that are all free are taken in one atomic step, where the engine can; else,
// and where one must be waited for, they are taken one after the other, sorted, so
// that two callers cannot wait for each other, whatever order they name them in; nor
// one for another that takes single locks in that order.
func (c *Client) LockAll(ctx context.Context, names ...string) (*Lease, error) {
	return c.lockAll(ctx, names, false)
}

// TryLockAll takes several names now, all or none, or returns ErrHeld; *Error says
// which name was held and *HeldError by whom.
func (c *Client) TryLockAll(ctx context.Context, names ...string) (*Lease, error) {
	return c.lockAll(ctx, names, true)
}

func (c *Client) lockAll(ctx context.Context, names []string, try bool) (*Lease, error) {
	if ctx == nil {
		panic("pawl: nil context")
	}
	if len(names) == 0 {
		return nil, c.fail("lock", "", fmt.Errorf("%w: no names", ErrInvalid))
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names { // before anything is taken
		if err := checkName(name); err != nil {
			return nil, c.fail("lock", name, err)
		}
	}
	whole := c.whole(ctx, names, c.now())
	parts, at, err := c.takeAtOnce(ctx, whole, names)
	if err != nil && (!try || errors.Is(err, errInOrder)) {
		whole = c.whole(ctx, names, whole.since) // that one may have ended with a part of it
		parts, at, err = c.takeInOrder(ctx, whole, names, try)
	}
	return c.gathered(whole, parts, at, err)
}

// whole is a lease of several names that has no parts yet.
func (c *Client) whole(ctx context.Context, names []string, since instant) *Lease {
	l := &Lease{c: c, name: names[0], kind: exclusive, since: since}
	l.start(ctx)
	return l
}

// gathered makes one lease of the leases of all names, or gives back those that
// were taken before one was not.
func (c *Client) gathered(whole *Lease, parts []*Lease, at string, err error) (*Lease, error) {
	if err == nil {
		whole.parts, whole.outer = parts, parts[len(parts)-1]
		return whole, nil
	}
	whole.end(ErrReleased)
	for _, p := range slices.Backward(parts) {
		_ = p.Unlock() // what went unanswered stays with the keeper
	}
	return nil, c.fail("lock", at, err)
}

// takeInOrder takes the names one after the other. It returns the leases of those
// that it got, and which it did not.
func (c *Client) takeInOrder(ctx context.Context, whole *Lease, names []string, try bool) (parts []*Lease, at string, err error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(whole.ctx.fill(), func() { cancel(ErrLost) })() // a name that was lost ends the wait for the next
	var chain *Lease
	for _, name := range names {
		k := c.part(name, whole)
		if k.o.limited {
			k.o.wait = max(0, k.o.wait-time.Duration(c.now()-whole.since))
		}
		l, err := k.acquire(wait, chain, 1, try)
		if err == nil {
			parts, chain = append(parts, l), l
		}
		if lost := whole.Err(); lost != nil { // a name taken before, while this one was waited for
			err = lost
		}
		if err != nil {
			return parts, name, err
		}
	}
	return parts, "", nil
}

// part is the lock of one of several names.
func (c *Client) part(name string, whole *Lease) *lock {
	own := c.defaults // the wait becomes shorter from name to name
	return &lock{c: c, name: name, limit: 1, o: &own, up: whole}
}
