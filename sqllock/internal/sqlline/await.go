package sqlline

import (
	"context"
	"time"

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
	seen := s.stateOf(c).seen
	defer s.e.addPlace(c.Name, w, place{seen.token, s.lookEvery(seen)})()
	s.e.startListening()
	return driverkit.Await(ctx, s, w, nil, c, last)
}

// Look reads the standing of c, after advancing the line if a claim ahead has expired or
// none holds: no other process may be there to do it.
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
		st := r.standing()
		left := !again && r.stalled() && s.leaveToOthers(c, &r)
		if left {
			st.Pause = min(time.Duration(r.ahead)*othersPause, s.ttl/3)
		}
		if left || again || !r.stalled() {
			s.saw(c, r.location(c))
			return st, nil
		}
		if err := s.e.advance(ctx, a.Key()); err != nil {
			return driver.Standing{}, err
		}
	}
}

const (
	// Behind more than atFront claims a waiter leaves it to those ahead to advance a line,
	// for othersPause for each of them: of a thousand that find it stalled at once, as it is
	// for a moment at every handover, one is enough, and each that tries is in the way of the
	// others.
	atFront     = 8
	othersPause = 5 * time.Millisecond
)

// leaveToOthers reports whether c, which found its line stalled, is to leave that to those
// ahead: once, unless the line has another first claim since.
func (s *session) leaveToOthers(c driver.Claim, r *claimReading) (left bool) {
	if r.ahead <= atFront {
		return false
	}
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		left = p.State.stalled != r.first.id
		p.State.stalled = r.first.id
	})
	return left
}
