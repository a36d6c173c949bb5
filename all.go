package pawl

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LockAll takes several names, all or none, and returns one lease for them: it
// ends when any of them is lost. The names are taken one after the other in one
// order for everybody, so two callers that name them in opposite orders cannot
// wait for each other. A name given twice is taken once.
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
	whole := &Lease{c: c, name: names[0], kind: exclusive, since: c.now()}
	whole.start(ctx)
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(whole.ctx.fill(), func() { cancel(ErrLost) })() // a name that was lost ends the wait for the next
	parts := make([]*Lease, 0, len(names))
	var chain *Lease
	for _, name := range names {
		k := lock{c: c, name: name, limit: 1, o: c.defaults, up: whole}
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
			whole.end(ErrReleased)
			for _, p := range slices.Backward(parts) {
				_ = p.Unlock() // what went unanswered stays with the keeper
			}
			return nil, c.fail("lock", name, err)
		}
	}
	whole.parts, whole.outer = parts, chain
	return whole, nil
}
