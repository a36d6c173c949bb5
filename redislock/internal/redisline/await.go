package redisline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

var (
	_ driverkit.Backend = (*session)(nil)
	_ driverkit.Granter = (*session)(nil)
)

// idleSubscription is how long a cluster's subscription is kept for the next waiter.
const idleSubscription = 30 * time.Second

// Await waits for the grant of the claim, which its message carries. It looks first
// unless the subscription was up, without a gap, since before the claim was entered.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	sub := s.store.subscriptions.Open(s.store.Keys.Channel(c.Name), s.store.notify)
	if sub == nil {
		return driver.Standing{}, driver.ErrGone
	}
	if s.store.Keys.Cluster() {
		defer sub.Release(idleSubscription)
	} else {
		defer sub.Release(-1) // there is only one
	}
	p := s.claims.Find(c.ID, c.Try)
	if p == nil {
		return s.Look(ctx, c)
	}
	return driverkit.Await(ctx, s, &p.Waiter, sub, c, last)
}

// Look reads how c stands; the script also lets in the claims that fit.
func (s *session) Look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	keys, prefix := s.keysOf(&c)
	r, err := s.store.run(ctx, lookScript, keys.All(), prefix, s.millis, "0")
	if err != nil {
		return driver.Standing{}, s.store.wrap(c.Name, err)
	}
	st, err := s.standing(&c, r)
	st.Valid = 0 // nothing was prolonged
	switch {
	case err != nil:
		return st, err
	case st.Gone:
		s.claims.End(c)
		return st, nil
	}
	s.answered(&c, r, st.Held)
	if st.Held {
		return s.confirm(ctx, &c, st.Token)
	}
	return st, nil
}

// Ended is closed by Close.
func (s *session) Ended() <-chan struct{} { return s.claims.Ended() }

// TakeGrant returns a grant that was published for c.
func (s *session) TakeGrant(ctx context.Context, c driver.Claim) (st driver.Standing, taken bool, err error) {
	token := s.takeGrant(&c)
	if token == 0 {
		return driver.Standing{}, false, nil
	}
	st, err = s.confirm(ctx, &c, token)
	return st, true, err
}
