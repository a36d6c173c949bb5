package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A lock is a name with a limit and options: what Mutex, RWMutex and Semaphore
// have in common.
type lock struct {
	c         *Client
	name      string
	limit     int
	semaphore bool
	o         *options
	whole     *term // of the lease of several names that this one is taken for
}

func (k *lock) mode(need int) Mode {
	switch {
	case k.semaphore:
		return Counted
	case need >= k.limit:
		return Exclusive
	}
	return Shared
}

// check refuses what can be refused without asking the store.
func (k *lock) check(need int) error {
	if err := checkName(k.name); err != nil {
		return err
	}
	if k.o.err != nil {
		return k.o.err
	}
	f := k.c.features
	switch {
	case k.semaphore && (k.limit < 1 || k.limit >= driver.All):
		return fmt.Errorf("%w: semaphore of %d permits: 1 to %d", ErrInvalid, k.limit, driver.All-1)
	case need < 1:
		return fmt.Errorf("%w: %d permits asked for: at least 1", ErrInvalid, need)
	case need > k.limit:
		return worded{driver.Join(ErrInvalid, ErrLimit),
			fmt.Sprintf("%v: %d permits asked of a semaphore that has only %d", ErrInvalid, need, k.limit)}
	case k.semaphore && k.limit > 1 && !f.Count:
		return fmt.Errorf("%w: a semaphore of more than one permit", ErrUnsupported)
	case k.limit == driver.All && need < k.limit && !f.Shared:
		return fmt.Errorf("%w: a lock for reading", ErrUnsupported)
	}
	return nil
}

// bound returns ctx, ended also by WithWait and by Close.
func (k *lock) bound(ctx context.Context, try bool) *callContext {
	if k.o.limited && !try {
		return &callContext{Context: ctx, closing: k.c.ctx, until: time.Now().Add(k.o.wait), why: errWaited}
	}
	return &callContext{Context: ctx, closing: k.c.ctx}
}

// newClaim is a claim of need units that the store has never seen.
func (k *lock) newClaim(need int, try bool) *claim {
	return newClaim(driver.Claim{
		Try: 1, Name: k.name, Need: need, Limit: k.limit,
		Queue: !try && k.c.features.Queue, Note: k.o.note,
	}, k.mode(need), k.o, nil)
}

// A gateKey names the acquires that may share one place in line: exclusive claims on
// one name that ask the engine for exactly the same. A mutex and a semaphore of one
// permit ask for the same too, but a hold that went from one to the other would tell its
// observers the wrong mode.
type gateKey struct {
	name         string
	limit        int
	semaphore    bool
	ttl, maxHold time.Duration
	note         string
}

func (k *lock) gateKey() gateKey {
	return gateKey{k.name, k.limit, k.semaphore, k.o.ttl, k.o.maxHold, k.o.note}
}

// partLock is the lock of one of several names.
func (c *Client) partLock(name string, whole *Lease) *lock {
	own := *whole.o
	if own.limited { // the wait becomes shorter from name to name
		own.wait = max(0, own.wait-c.now().Sub(whole.since))
	}
	return &lock{c: c, name: name, limit: 1, o: &own, whole: &whole.term}
}
