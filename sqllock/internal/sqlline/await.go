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
	defer s.e.addPlace(c.Name, w, place{s.stateOf(c).seen.token, s.ttl})()
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
		st, pause := r.standing(), time.Duration(0)
		if !again && r.stalled() {
			pause = s.leaveToOthers(c, &r)
		}
		if pause > 0 {
			st.Pause = pause
		}
		if pause > 0 || again || !r.stalled() {
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

// A stall is why a waiter found its line to be advanced, and until when it leaves that to
// others.
type stall struct {
	first  string // the first claim, where none holds
	expiry int64  // of what has expired
	until  time.Time
}

// leaveToOthers returns for how long c, which found its line stalled, is to leave that to
// those ahead. A stall for another reason than the last one begins anew.
func (s *session) leaveToOthers(c driver.Claim, r *claimReading) (pause time.Duration) {
	if r.ahead <= atFront {
		return 0
	}
	found := stall{first: r.first.id}
	if r.first.held != 0 {
		found = stall{expiry: r.expiry}
	}
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		if last := p.State.stall; last.first != found.first || last.expiry != found.expiry {
			found.until = time.Now().Add(min(time.Duration(r.ahead)*othersPause, s.ttl/3))
			p.State.stall = found
		}
		pause = time.Until(p.State.stall.until)
	})
	return pause
}
