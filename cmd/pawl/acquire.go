package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// obtain opens the store and takes the lock. A signal ends it, whatever it waits
// for.
func (j *job) obtain(ctx context.Context, signals *signals) (c *pawl.Client, lease *pawl.Lease, err error) {
	ctx, calm := signals.interrupts(ctx)
	if c, err = j.open(ctx, j.store, pawl.WithTTL(j.ttl), pawl.WithNote(j.me.note())); err == nil {
		lease, err = j.acquire(ctx, c)
	}
	calm()
	// A signal that came with the grant was taken out of the channel, so nobody
	// else would hear of it.
	if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		if lease != nil {
			_ = lease.Unlock()
		}
		return c, nil, i
	}
	return c, lease, err
}

// acquire takes the lock: at once, or after a wait that can be seen.
func (j *job) acquire(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	lease, err := j.takeFresh(ctx, c, true)
	if err == nil || !errors.Is(err, pawl.ErrHeld) {
		return j.acquired(lease, "", err)
	}
	busy := err
	if err := j.deadlock(ctx, c); err != nil {
		return nil, err
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
	view := j.view(ctx, c, false)
	lease, err = j.takeFresh(ctx, c, false)
	took := view.close()
	if err != nil && errors.Is(context.Cause(ctx), errWaited) {
		err = heldAfterAll(err, busy)
	}
	return j.acquired(lease, took, err)
}

// acquired tells of a lock that was taken.
func (j *job) acquired(lease *pawl.Lease, waited string, err error) (*pawl.Lease, error) {
	if err != nil {
		return nil, err
	}
	number := j.own(lease).Token()
	j.events.add(event{Event: "acquired", Name: j.name, Token: token(number)})
	switch {
	case waited != "" && !j.quiet:
		j.say("acquired %q after %s (token %d)", j.name, waited, number)
	case j.verbose:
		j.say("acquired %q (token %d)", j.name, number)
	}
	return lease, nil
}

// explain says in the command's words what the library says of a lock.
func (j *job) explain(err error) error {
	if l, ok := errors.AsType[*pawl.LimitError](err); ok && l.Other != nil {
		return &coded{exitUsage, fmt.Errorf("%q: another limit is in use: %s, by %s; this asks for %s: use the same, or another name",
			j.name, flagOf(l.Other.Limit), holderOf(l.Other.Note), flagOf(l.Limit))}
	}
	if text := err.Error(); errors.Is(err, pawl.ErrUnreachable) && !strings.Contains(text, j.store.shown) {
		return fmt.Errorf("store %s: %w", j.store.shown, err)
	}
	return err
}

// flagOf is the flag that asks for a lock with a limit.
func flagOf(limit int) string {
	if limit == driver.All {
		return "--shared"
	}
	return fmt.Sprintf("--slots %d", limit)
}

var errWaited = errors.New("waited long enough")

// heldAfterAll makes the end of our own wait what it is: a lock that is held,
// unless the store could not be asked any more. A short wait may end before it
// learns by whom, which busy, from before it, says too.
func heldAfterAll(err, busy error) error {
	if errors.Is(err, pawl.ErrUnreachable) {
		return err
	}
	if h, ok := errors.AsType[*pawl.HeldError](err); ok && h.Holder != nil {
		return &pawl.HeldError{Holder: h.Holder, Ahead: h.Ahead, Err: pawl.ErrHeld}
	}
	if h, ok := errors.AsType[*pawl.HeldError](busy); ok {
		return h
	}
	return fmt.Errorf("%w: %w", pawl.ErrHeld, err)
}

// takeFresh takes the lock with more life left than it takes to stop the command.
// A grant at the end of an outage has little, or none, until it is renewed; a
// command that began then would be stopped at once.
func (j *job) takeFresh(ctx context.Context, c *pawl.Client, try bool) (*pawl.Lease, error) {
	for {
		lease, err := j.take(ctx, c, try)
		if err != nil {
			return nil, err
		}
		for lease.Err() == nil && ctx.Err() == nil {
			if time.Until(lease.Deadline()) > j.killAfter {
				return lease, nil
			}
			select {
			case <-time.After(5 * time.Millisecond): // nothing tells of a renewal
			case <-lease.Context().Done():
			case <-ctx.Done():
			}
		}
		_ = lease.Unlock() // lost, or not wanted any more: then take says so
	}
}

// take asks for the lock in the way the flags say.
func (j *job) take(ctx context.Context, c *pawl.Client, try bool) (*pawl.Lease, error) {
	switch {
	case j.verb == "elect":
		return j.campaign(ctx, c, try)
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
			return c.TryLockAll(ctx, append([]string{j.name}, j.also...))
		}
		return c.LockAll(ctx, append([]string{j.name}, j.also...))
	}
	m := c.Mutex(j.name)
	if try {
		return m.TryLock(ctx)
	}
	return m.Lock(ctx)
}

// deadlock finds out whether what is in the way is a pawl that waits for us: one whose
// command we are, or are part of. The holder that an engine names may be another of
// several, so all are looked at.
func (j *job) deadlock(ctx context.Context, c *pawl.Client) error {
	above := owners()
	if len(above) == 0 {
		return nil
	}
	for i, name := range append([]string{j.name}, j.also...) {
		line := name
		if i == 0 {
			line = j.line
		}
		held, err := holders(ctx, c, line)
		if err != nil {
			return err
		}
		units := 0
		for _, e := range held {
			if !slices.Contains(above, e.ID) {
				continue
			}
			// With slots there is a way out as long as a stranger has one of them.
			if units += e.Need; j.slots == 0 || units >= j.slots || e.Exclusive() {
				return &coded{j.busyCode, fmt.Errorf("%q is held by your own parent%s, which waits for this command: neither would ever end; take %[1]q in only one of the two, or use another name", name, whichParent(e))}
			}
		}
	}
	return nil
}

// whichParent is " pid 17 (make on ci-7)", or nothing for a candidate, whose note has no
// process. The host is said because a command in a container may inherit its parent too.
func whichParent(e driver.Entry) string {
	who := holderOf(e.Note)
	if who.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" pid %d (%s on %s)", who.PID, who.Command, who.User[strings.LastIndexByte(who.User, '@')+1:])
}

// place finds who holds the name, and how many stand before us.
func place(ctx context.Context, c *pawl.Client, name, note string) (first *driver.Entry, ahead int) {
	line, err := c.Line(ctx, name)
	if err != nil || len(line) == 0 {
		return nil, -1
	}
	at := slices.IndexFunc(line, func(e driver.Entry) bool { return !e.Held && e.Note == note })
	return &line[0], at
}
