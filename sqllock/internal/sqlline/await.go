package sqlline

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Await looks, waits for a notice or for the time to recheck, and looks again.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	// Before the first look, so that no turn is missed in between. Each Await has a
	// waiter of its own, since a notice between two of them finds none.
	w := &driverkit.Waiter{}
	s.e.waiters.Add(c, w)
	defer s.e.waiters.Remove(c, w)
	defer s.e.addPlace(c, s.stateOf(c).seen.token)()
	s.e.startListening()
	return driverkit.Await(ctx, s, w, nil, c, last)
}

// Look reads the standing of c, after advancing the line if a claim ahead has expired:
// no other process may be there to do it.
func (s *session) Look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	a := s.args(c)
	for again := false; ; again = true {
		r := claimReading{name: c.Name}
		if err := s.e.read(ctx, s.e.q.Standing, a, r.scan); err != nil {
			return driver.Standing{}, err
		}
		if !r.known || r.try != c.Try || r.until <= r.now {
			s.claims.End(c)
			return driver.Standing{Gone: true}, nil
		}
		if again || !r.stalled() {
			s.saw(c, r.location(c))
			return r.standing(), nil
		}
		if err := s.e.advance(ctx, a.Key()); err != nil {
			return driver.Standing{}, err
		}
	}
}
