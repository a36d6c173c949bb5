package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// openAndAcquire opens the store and acquires the lock. A signal interrupts both.
func (j *job) openAndAcquire(ctx context.Context, signals *signals) (c *pawl.Client, lease *pawl.Lease, err error) {
	ctx, stopInterrupts := signals.interrupts(ctx)
	if c, err = j.openStore(ctx, j.store, pawl.WithTTL(j.ttl), pawl.WithNote(j.me.Note())); err == nil {
		lease, err = j.acquire(ctx, c)
	}
	stopInterrupts()
	// A signal that arrived together with the grant was already read from the
	// channel, so it must be handled here.
	if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		if lease != nil {
			_ = lease.Unlock()
		}
		return c, nil, i
	}
	return c, lease, err
}

// acquire takes the lock, at once or after a wait that is displayed.
func (j *job) acquire(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	lease, err := j.takeWithTimeLeft(ctx, c, true)
	if err == nil || !errors.Is(err, pawl.ErrHeld) {
		return j.acquired(lease, "", err)
	}
	busy := err
	if err := j.deadlock(ctx, c); err != nil {
		return nil, err
	}
	if j.now || j.waitGiven && j.wait == 0 {
		return nil, err
	}
	j.events.add(event{Event: "waiting", Name: j.name})
	if j.waitGiven {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, j.wait, errWaitOver)
		defer stop()
	}
	display := j.showWait(ctx, c, false)
	lease, err = j.takeWithTimeLeft(ctx, c, false)
	took := display.close()
	if err != nil && errors.Is(context.Cause(ctx), errWaitOver) {
		err = waitTimedOut(err, busy)
	}
	return j.acquired(lease, took, err)
}

// acquired reports a lock that was taken.
func (j *job) acquired(lease *pawl.Lease, waited string, err error) (*pawl.Lease, error) {
	if err != nil {
		return nil, err
	}
	number := j.partOfName(lease).Token()
	j.events.add(event{Event: "acquired", Name: j.name, Token: claimview.Token(number)})
	switch {
	case waited != "" && !j.quiet:
		j.say("acquired %q after %s (token %d)", j.name, waited, number)
	case j.verbose:
		j.say("acquired %q (token %d)", j.name, number)
	}
	return lease, nil
}

// explain rewords the library's error in terms of the command's flags.
func (j *job) explain(err error) error {
	if l, ok := errors.AsType[*pawl.LimitError](err); ok && l.Other != nil {
		return &exitError{exitUsage, fmt.Errorf("%q: another limit is in use: %s, by %s; this asks for %s: use the same, or another name",
			j.name, flagOf(l.Other.Limit), claimview.ParseNote(l.Other.Note), flagOf(l.Limit))}
	}
	if text := err.Error(); errors.Is(err, pawl.ErrUnreachable) && !strings.Contains(text, j.store.shown) {
		return fmt.Errorf("store %s: %w", j.store.shown, err)
	}
	return err
}

// flagOf returns the flag that requests a lock with this limit.
func flagOf(limit int) string {
	if limit == driver.All {
		return "--shared"
	}
	return fmt.Sprintf("--slots %d", limit)
}

var errWaitOver = errors.New("waited long enough")

// waitTimedOut turns the end of -w into pawl.ErrHeld, unless the store became
// unreachable. A short wait may end before the holder is known; busy, the error
// from before the wait, names it then.
func waitTimedOut(err, busy error) error {
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

// takeWithTimeLeft takes the lock and waits until more time is left on it than
// stopping the command takes. A grant at the end of an outage has little time left
// until it is renewed; a command started on it would be stopped at once.
func (j *job) takeWithTimeLeft(ctx context.Context, c *pawl.Client, try bool) (*pawl.Lease, error) {
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
			case <-time.After(5 * time.Millisecond): // a lease does not report its renewals
			case <-lease.Context().Done():
			case <-ctx.Done():
			}
		}
		_ = lease.Unlock() // the lease is lost, or ctx has ended, which take then reports
	}
}

// take requests the lock as the flags say.
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

// deadlock fails if a holder of the lock is a pawl that waits for this process: one
// whose command started it. It checks all holders because the engine may name any
// of them.
func (j *job) deadlock(ctx context.Context, c *pawl.Client) error {
	above := owners()
	if len(above) == 0 {
		return nil
	}
	for i, name := range append([]string{j.name}, j.also...) {
		line := name
		if i == 0 {
			line = j.lockName
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
			// With --slots a slot may become free as long as another process has
			// one of them.
			if units += e.Need; j.slots == 0 || units >= j.slots || e.Exclusive() {
				return &exitError{j.busyCode, fmt.Errorf("%q is held by your own parent%s, which waits for this command: neither would ever end; take %[1]q in only one of the two, or use another name", name, whichParent(e))}
			}
		}
	}
	return nil
}

// whichParent returns " pid 17 (make on ci-7)", or nothing for a candidate, whose
// note names no process. It names the host because a command in a container also
// inherits the variables.
func whichParent(e driver.Entry) string {
	who := claimview.ParseNote(e.Note)
	if who.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" pid %d (%s on %s)", who.PID, who.Command, who.User[strings.LastIndexByte(who.User, '@')+1:])
}
