package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Engine returns the engine the client was made with.
func (c *Client) Engine() driver.Engine { return c.engine }

// Records returns the engine's small versioned values, or ErrUnsupported.
func (c *Client) Records() (driver.Records, error) {
	if c.ctx.Err() != nil {
		return nil, c.fail("records", "", ErrClosed)
	}
	r, ok := c.engine.(driver.Records)
	if !ok {
		return nil, c.fail("records", "", ErrUnsupported)
	}
	return r, nil
}

// List yields the claims, held and waiting, on names that begin with prefix.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if c.ctx.Err() != nil {
			yield(driver.Entry{}, c.fail("list", prefix, ErrClosed))
			return
		}
		for e, err := range c.engine.List(ctx, prefix) {
			if err != nil {
				err = c.fail("list", prefix, c.closedOr(err))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Line returns the claims on one name, held and waiting, in the line's order. It is
// one step, however many other names the store has.
func (c *Client) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := checkName(name); err != nil {
		return nil, c.fail("line", name, err)
	}
	if c.ctx.Err() != nil {
		return nil, c.fail("line", name, ErrClosed)
	}
	line, err := c.engine.Line(ctx, name)
	if err != nil {
		return nil, c.fail("line", name, c.closedOr(err))
	}
	return line, nil
}

// Evict breaks exactly the claim that e, from List, shows. It does not stop the
// holder's work: the holder is told, and its token is stale from now on.
// ErrNotHeld says that the claim is not there any more, or has changed.
func (c *Client) Evict(ctx context.Context, e driver.Entry) error {
	if c.ctx.Err() != nil {
		return c.fail("evict", e.Name, ErrClosed)
	}
	err := c.engine.Evict(ctx, e)
	if errors.Is(err, driver.ErrGone) {
		err = ErrNotHeld
	}
	if err != nil {
		return c.fail("evict", e.Name, c.closedOr(err))
	}
	return nil
}

// closedOr returns ErrClosed in place of the error of an engine that was closed during
// the call.
func (c *Client) closedOr(err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// Watch lists four times a second, but for at most a tenth of the time on a store that
// takes long to list. It waits ten seconds for one answer: some clients would wait for
// as long as their connection seems open.
const (
	watchInterval = 250 * time.Millisecond
	watchShare    = 10
	watchTimeout  = 10 * time.Second
)

// A Step says what a claim did.
type Step int

// The steps of a claim.
const (
	Queued Step = iota + 1 // it stands in line
	Taken                  // it is held
	Left                   // it is gone: released, expired or broken
)

// String returns the step in lower case.
func (s Step) String() string {
	return word(int(s), "unknown", "queued", "taken", "left")
}

// A Change is one step of one claim.
type Change struct {
	Step  Step
	Entry driver.Entry
	Ahead int // claims before it in its line, when it was queued
}

// Watch yields what changes on names that begin with prefix, beginning with how
// they stand, until ctx ends. It lists four times a second, or for a tenth of the time
// on a store in which listing takes long, so a claim that came and went in between is
// not seen: it is for people and dashboards, not for deciding who holds a lock. An
// error is yielded and does not end the watch, but ErrClosed does. A store that does
// not answer for ten seconds is ErrUnreachable.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[Change, error] {
	requireContext(ctx)
	return func(yield func(Change, error) bool) {
		known := map[string]driver.Entry{}
		tick := time.NewTimer(0)
		defer tick.Stop()
		for ctx.Err() == nil {
			from := time.Now()
			changes, now, err := c.compare(ctx, prefix, known)
			tick.Reset(max(watchInterval-time.Since(from), (watchShare-1)*time.Since(from)))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(Change{}, err) || errors.Is(err, ErrClosed) {
					return
				}
			default:
				known = now
			}
			for _, ch := range changes {
				if !yield(ch, nil) {
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

// compare lists the claims and says how they differ from those known.
func (c *Client) compare(ctx context.Context, prefix string, known map[string]driver.Entry) ([]Change, map[string]driver.Entry, error) {
	now := make(map[string]driver.Entry, len(known))
	var came, left []Change
	call, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	name, ahead := "", -1
	for e, err := range c.List(call, prefix) {
		if err != nil && call.Err() != nil && ctx.Err() == nil {
			err = c.fail("watch", prefix, fmt.Errorf("%w: no answer for %v", ErrUnreachable, watchTimeout))
		}
		if err != nil {
			return nil, nil, err
		}
		if ahead++; e.Name != name { // claims on one name follow each other
			name, ahead = e.Name, 0
		}
		key := e.Name + "\x00" + e.ID
		now[key] = e
		if old, ok := known[key]; ok && old.Held == e.Held && old.Fence == e.Fence {
			continue
		}
		change := Change{Step: Taken, Entry: e}
		if !e.Held {
			change.Step, change.Ahead = Queued, ahead
		}
		came = append(came, change)
	}
	for key, e := range known {
		if _, ok := now[key]; !ok {
			left = append(left, Change{Step: Left, Entry: e})
		}
	}
	return append(left, came...), now, nil
}
