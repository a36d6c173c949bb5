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
	try = try || c.defaults.limited && c.defaults.wait == 0
	whole := c.whole(ctx, names, c.now())
	parts, at, err := c.takeAtOnce(ctx, whole, names, try)
	if err != nil && (!try || errors.Is(err, errInOrder)) {
		whole = c.whole(ctx, names, whole.since) // that one may have ended with a part of it
		if over := c.over(ctx, whole, try); over != nil && !errors.Is(err, ErrHeld) {
			return c.gathered(whole, nil, names[0], over) // nobody has said that one is held
		}
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
	whole.parts = parts
	c.giveUp(whole)
	return nil, c.fail("lock", at, err)
}

// lastMoment is how long one who did not get all names waits until those that it got
// are given back. A store that answers needs far less; on one that does not, the
// caller, whose time may be over, is not kept.
const lastMoment = time.Second

// giveUp gives back the names of a lease that lacks others.
func (c *Client) giveUp(whole *Lease) {
	if len(whole.parts) == 0 {
		return
	}
	if !c.begin() {
		return // Close gives everything back
	}
	done := make(chan struct{})
	go func() { // Close waits for it, by calls; Unlock is bounded
		defer c.calls.Done()
		_ = whole.unlockParts() // what went unanswered stays with the keeper
		close(done)
	}()
	late := time.NewTimer(lastMoment)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// over is the error of one whose time is over before the store said anything.
func (c *Client) over(ctx context.Context, whole *Lease, try bool) error {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := c.part(whole.name, whole).o
	if !try && o.limited && o.wait == 0 {
		cancel(errWaited)
	}
	if wait.Err() == nil {
		return nil
	}
	return (&quest{c: c, o: o, began: whole.since}).stopped(wait)
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
		if !try && k.o.limited && k.o.wait == 0 {
			return parts, name, &HeldError{Ahead: -1, Err: ErrHeld} // the time is over, and the store may be silent
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
	own := c.defaults
	if own.limited { // the wait becomes shorter from name to name
		own.wait = max(0, own.wait-c.now().sub(whole.since))
	}
	return &lock{c: c, name: name, limit: 1, o: &own, up: whole}
}
