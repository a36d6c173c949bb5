package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// acquire takes the lock: at once, or after a wait that can be seen and
// interrupted.
func (j *job) acquire(ctx context.Context, c *pawl.Client, signals *signals) (*pawl.Lease, error) {
	ctx, cancel := signals.interrupts(ctx)
	defer cancel()
	lease, err := j.take(ctx, c, true)
	if err == nil || !errors.Is(err, pawl.ErrHeld) {
		return j.acquired(ctx, lease, "", err)
	}
	if h, ok := errors.AsType[*pawl.HeldError](err); ok && h.Holder != nil {
		if who := holderOf(h.Holder.Note); j.ancestor(who) {
			return nil, &coded{j.busyCode, fmt.Errorf("%q is held by your own parent pid %d: it would wait for itself for ever", j.name, who.PID)}
		}
	}
	if j.now || j.waits && j.wait == 0 {
		return nil, err
	}
	j.events.add(event{Event: "waiting", Name: j.name})
	if j.waits {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, j.wait, errWaited)
		defer stop()
	}
	view := j.view(ctx, c)
	lease, err = j.take(ctx, c, false)
	took := view.close()
	if err != nil && errors.Is(context.Cause(ctx), errWaited) {
		err = heldAfterAll(err)
	}
	return j.acquired(ctx, lease, took, err)
}

var errWaited = errors.New("waited long enough")

// heldAfterAll makes the end of our own wait what it is: a lock that is held.
func heldAfterAll(err error) error {
	if h, ok := errors.AsType[*pawl.HeldError](err); ok {
		return &pawl.HeldError{Holder: h.Holder, Ahead: h.Ahead, Err: pawl.ErrHeld}
	}
	return fmt.Errorf("%w: %w", pawl.ErrHeld, err)
}

// take asks for the lock in the way the flags say.
func (j *job) take(ctx context.Context, c *pawl.Client, try bool) (*pawl.Lease, error) {
	switch {
	case j.slots > 0:
		s := c.Semaphore(j.name, j.slots)
		if try {
			return s.TryAcquire(ctx, 1)
		}
		return s.Acquire(ctx, 1)
	case j.shared:
		rw := c.RWMutex(j.name)
		if try {
			return rw.TryRLock(ctx)
		}
		return rw.RLock(ctx)
	case len(j.also) > 0:
		if try {
			return c.TryLockAll(ctx, append([]string{j.name}, j.also...)...)
		}
		return c.LockAll(ctx, append([]string{j.name}, j.also...)...)
	}
	m := c.Mutex(j.name)
	if try {
		return m.TryLock(ctx)
	}
	return m.Lock(ctx)
}

// ancestor reports whether a holder is a process that we descend from.
func (j *job) ancestor(h holder) bool {
	if h.User != j.me.User || h.PID == 0 {
		return false
	}
	for pid := os.Getppid(); pid > 1; pid = parentOf(pid) {
		if pid == h.PID {
			return true
		}
	}
	return false
}

// place finds who holds the name, and how many stand before us.
func place(ctx context.Context, c *pawl.Client, name, note string) (first *driver.Entry, ahead int) {
	for e, err := range c.List(ctx, name) {
		if err != nil {
			return first, -1
		}
		if e.Name != name {
			continue
		}
		if first == nil {
			first = &e
		}
		if !e.Held && e.Note == note {
			return first, ahead
		}
		ahead++
	}
	return first, -1
}
