package redisline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// subscribePause is how long a waiter waits for its subscription before it looks.
const subscribePause = 100 * time.Millisecond

// Await waits for the grant of the claim or for its pause. It looks first unless the
// subscription was up, without a gap, since before the claim was entered: then no
// message can have been missed.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	sub, err := s.store.subscriptions.Use(s.store.Keys.Channel(c.Name), s.store.notify)
	if err != nil {
		return driver.Standing{}, driver.ErrGone
	}
	defer sub.Release()
	wake := s.waiting(&c)
	if wake == nil {
		return s.look(ctx, c)
	}
	s.looked(&c, last)
	for {
		if token := s.takeGrant(&c); token != 0 {
			return s.confirm(ctx, &c, token)
		}
		generation, changed, down := sub.State()
		pause := s.pause(&c)
		switch {
		case generation == 0:
			if redisclient.Code(down) != "" && !redisclient.Temporary(down) { // refused for good
				return driver.Standing{}, redisclient.Wrap(down)
			}
			pause = min(max(pause, time.Millisecond), subscribePause)
		case !s.readIn(&c, generation):
			s.setGeneration(&c, generation) // before the look: a message during it resets it
			st, err := s.look(ctx, c)
			if err != nil || st.Held || st.Gone {
				s.setGeneration(&c, 0)
				return st, err
			}
			s.looked(&c, st)
			if driverkit.Blocker(st) != driverkit.Blocker(last) {
				return st, nil
			}
			continue
		case pause <= 0:
			return s.look(ctx, c)
		}
		switch elapsed, err := s.wait(ctx, pause, wake, changed); {
		case err != nil:
			return driver.Standing{}, err
		case elapsed && generation == 0:
			return s.look(ctx, c)
		}
	}
}

// wait waits for a message, a change of the subscription, or the end of pause, which it
// reports.
func (s *session) wait(ctx context.Context, pause time.Duration, wake, changed <-chan struct{}) (elapsed bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-wake:
		return false, nil
	case <-changed:
		return false, nil
	case <-timer.C:
		return true, nil
	case <-s.done:
		return false, driver.ErrGone
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// look reads how c stands; the script also lets in the claims that fit.
func (s *session) look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	keys, prefix := s.keysOf(&c)
	r, err := s.store.run(ctx, lookScript, keys.All(), prefix, s.millis, "0")
	if err != nil {
		return driver.Standing{}, s.store.wrap(c.Name, err)
	}
	st, err := s.standing(&c, r)
	st.Valid = 0 // nothing was prolonged
	switch {
	case err != nil:
	case st.Gone:
		s.forget(c)
	case st.Held:
		s.entered(&c, true)
		return s.confirm(ctx, &c, st.Token)
	default:
		s.expect(&c, r)
	}
	return st, err
}
