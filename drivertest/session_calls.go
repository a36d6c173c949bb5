package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// validUntil returns the earliest possible expiry of a claim after st was the
// answer to a call sent at sent. If st promises nothing, the claim lives as long as
// the session.
func (s *session) validUntil(sent time.Time, st driver.Standing) time.Time {
	if st.Valid > 0 {
		return sent.Add(st.Valid)
	}
	return s.opened.Add(s.TTL())
}

// tryEnter calls Enter.
func (s *session) tryEnter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	err = s.retryLostReply(ctx, func() error {
		st, err = s.Enter(ctx, c)
		return err
	})
	return st, err
}

// awaitHeld calls Await until c is held.
func (s *session) awaitHeld(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	for !last.Held {
		err := s.retryLostReply(ctx, func() error {
			st, err := s.Await(ctx, c, last)
			if err == nil {
				last = st
			}
			return err
		})
		if err != nil {
			return last, err
		}
		if last.Gone {
			return last, fmt.Errorf("claim %s waited and is gone", c.ID)
		}
	}
	return last, nil
}

// acquire takes c as the core does: it queues if the engine has lines, and
// otherwise enters again with the next Try. It returns the claim that is held.
func (s *session) acquire(ctx context.Context, c driver.Claim) (driver.Claim, driver.Standing, error) {
	st, err := s.tryEnter(ctx, c)
	if err == nil && c.Queue {
		st, err = s.awaitHeld(ctx, c, st)
		return c, st, err
	}
	for err == nil && !st.Held {
		if err = s.awaitHint(ctx, c, st); err != nil {
			break
		}
		c = nextTry(c)
		st, err = s.tryEnter(ctx, c)
	}
	return c, st, err
}

// awaitHint waits until the name may be free. The wait is short because the engine
// may miss the moment or give no notice at all.
func (s *session) awaitHint(ctx context.Context, c driver.Claim, last driver.Standing) error {
	pause := s.f.ttl / 10
	if last.Pause > 0 {
		pause = min(pause, last.Pause)
	}
	wait, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if s.f.can.Queue { // Await is only for claims in the line
		<-wait.Done()
		return ctx.Err()
	}
	_, err := s.Await(wait, c, last)
	if wait.Err() != nil || s.f.losesReplies && errors.Is(err, driver.ErrUnreachable) {
		return ctx.Err()
	}
	return err
}

// tryLeave calls Leave. ErrGone in answer to a retry means that the lost reply was
// a success: no one evicts in these cases. The core cannot know that, and calls it
// unknown.
func (s *session) tryLeave(ctx context.Context, c driver.Claim) error {
	lost := false
	return s.retryLostReply(ctx, func() error {
		err := s.Leave(ctx, c)
		if lost && errors.Is(err, driver.ErrGone) {
			return nil
		}
		lost = errors.Is(err, driver.ErrUnreachable)
		return err
	})
}

// tryBeat calls Beat.
func (s *session) tryBeat(ctx context.Context, cs ...driver.Claim) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(cs))
	err := s.retryLostReply(ctx, func() error {
		clear(out)
		return s.Beat(ctx, cs, out)
	})
	return out, err
}
