package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LockAll takes several names, all or none, and returns one lease for them: it
// ends when any of them is lost, and Unlock gives all of them back. A name given
// twice is taken once. The options are those of the lock of every name; ctx, and
// WithWait, bound the whole wait. ErrLost says that a name was lost while another was
// waited for.
//
// Names that are all free are taken in one atomic step, where the engine can; else,
// and where one must be waited for, they are taken one after the other, sorted, so
// that two callers cannot wait for each other, whatever order they name them in; nor
// one for another that takes single locks in that order. While a later name is waited
// for, the earlier ones are held: take together what belongs together, and no more.
func (c *Client) LockAll(ctx context.Context, names []string, opts ...Option) (*Lease, error) {
	return c.lockAll(ctx, names, opts, false)
}

// TryLockAll takes several names now, all or none, or returns ErrHeld; *Error says
// which name was held and *HeldError by whom.
func (c *Client) TryLockAll(ctx context.Context, names []string, opts ...Option) (*Lease, error) {
	return c.lockAll(ctx, names, opts, true)
}

func (c *Client) lockAll(ctx context.Context, names []string, opts []Option, try bool) (*Lease, error) {
	requireContext(ctx)
	if len(names) == 0 {
		return nil, c.fail("lock", "", fmt.Errorf("%w: no names", ErrInvalid))
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names { // before anything is taken
		if err := checkName(name); err != nil {
			return nil, c.fail("lock", name, err)
		}
	}
	if err := ctx.Err(); err != nil { // the store is not asked, as for a single name
		return nil, c.fail("lock", names[0], err)
	}
	o := c.options(opts)
	try = try || o.limited && o.wait == 0
	defer o.observers.settle()
	whole := c.wholeLease(ctx, names, o, c.now())
	parts, at, err := c.takeAtOnce(ctx, whole, names, try)
	if err != nil && (!try || errors.Is(err, errInOrder)) {
		whole = c.wholeLease(ctx, names, o, whole.since) // the first may have ended with a part of it
		if over := c.timeOver(ctx, whole, try); over != nil && !errors.Is(err, ErrHeld) {
			c.partLock(names[0], whole).tellRefused(report{caller: ctx, start: whole.since}, 1, over)
			return c.gathered(whole, nil, names[0], over) // the store has not said that one is held
		}
		parts, at, err = c.takeInOrder(ctx, whole, names, try)
	}
	return c.gathered(whole, parts, at, err)
}

// wholeLease is a lease of several names that has no parts yet.
func (c *Client) wholeLease(ctx context.Context, names []string, o *options, since instant) *Lease {
	l := &Lease{c: c, name: names[0], o: o, mode: Exclusive, since: since}
	l.caller = ctx
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
	c.giveBackParts(whole)
	return nil, c.fail("lock", at, err)
}

// maxGiveBack is how long a caller that did not get all names waits until those that
// it got are given back. A store that answers needs far less; on one that does not,
// the caller, whose time may be over, is not kept.
const maxGiveBack = time.Second

// giveBackParts gives back the names of a lease that lacks others.
func (c *Client) giveBackParts(whole *Lease) {
	if len(whole.parts) == 0 || !c.begin() { // Close gives everything back
		return
	}
	done := make(chan struct{})
	go func() { // Close waits for it, by calls; Unlock is bounded
		defer c.calls.Done()
		_ = whole.unlockParts() // the keeper repeats what got no answer
		close(done)
	}()
	late := time.NewTimer(maxGiveBack)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// timeOver is the error of a caller whose time was over before the store answered.
func (c *Client) timeOver(ctx context.Context, whole *Lease, try bool) error {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := c.partLock(whole.name, whole).o
	if !try && o.limited && o.wait == 0 {
		cancel(errWaited)
	}
	if wait.Err() == nil {
		return nil
	}
	return (&acquisition{c: c, o: o, began: whole.since}).stopped(wait)
}

// takeInOrder takes the names one after the other. It returns the leases of those
// that it got, and which it did not.
func (c *Client) takeInOrder(ctx context.Context, whole *Lease, names []string, try bool) (parts []*Lease, at string, err error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(whole.context(), func() { cancel(ErrLost) })() // a name that was lost ends the wait for the next
	var chain *Lease
	for _, name := range names {
		k := c.partLock(name, whole)
		if !try && k.o.limited && k.o.wait == 0 {
			err := &HeldError{Ahead: -1, Err: ErrHeld} // the time is over, and the store may be silent
			k.tellRefused(k.newReport(ctx), 1, err)
			return parts, name, err
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
