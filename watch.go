package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// watchEvery is how often Watch looks, and watchShare that it looks at most for one
// part in so many of the time, on a store that takes long to list.
const (
	watchEvery = 250 * time.Millisecond
	watchShare = 10
)

// watchPatience is how long Watch waits for one answer: some clients would wait for
// as long as their connection seems open.
const watchPatience = 10 * time.Second

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
	switch s {
	case Queued:
		return "queued"
	case Taken:
		return "taken"
	case Left:
		return "left"
	}
	return "unknown"
}

// A Change is one step of one claim.
type Change struct {
	Step  Step
	Entry driver.Entry
	Ahead int // claims before it in its line, when it was queued
}

// Watch yields what changes on names that begin with prefix, beginning with how
// they stand, until ctx ends. It looks four times a second, or for a tenth of the time
// on a store in which listing takes long, so a claim that came and went in between is
// not seen: it is for people and dashboards, not for
// deciding who holds a lock. An error is yielded and does not end the watch, but
// ErrClosed does. A store that does not answer for ten seconds is ErrUnreachable.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[Change, error] {
	if ctx == nil {
		panic("pawl: nil context")
	}
	return func(yield func(Change, error) bool) {
		known := map[string]driver.Entry{}
		tick := time.NewTimer(0)
		defer tick.Stop()
		for ctx.Err() == nil {
			from := time.Now()
			changes, now, err := c.compare(ctx, prefix, known)
			tick.Reset(max(watchEvery-time.Since(from), (watchShare-1)*time.Since(from)))
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
	call, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	name, ahead := "", -1
	for e, err := range c.List(call, prefix) {
		if err != nil && call.Err() != nil && ctx.Err() == nil {
			err = c.fail("watch", prefix, fmt.Errorf("%w: no answer for %v", ErrUnreachable, watchPatience))
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
		step := Queued
		if e.Held {
			step = Taken
		}
		change := Change{Step: step, Entry: e}
		if !e.Held {
			change.Ahead = ahead
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
