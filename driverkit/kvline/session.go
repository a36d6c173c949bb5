package kvline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A session is one client's claims. They live as long as its value in the store does.
type session struct {
	e         *Engine
	id        string
	ttl       time.Duration
	claims    *driverkit.Claims[claimState]
	writing   chan struct{} // has one while the value is written
	withdrawn withdrawn

	mu       sync.Mutex // guards what follows
	revision uint64     // of the last write of the value that was answered
	renewed  moment     // when that was sent
	until    time.Time  // it lives until then by the store's clock, or longer
	gone     bool       // another client has ended it
}

// claimState is guarded by the table of claims.
type claimState struct {
	token    uint64           // as the last Enter was answered; 0: not yet
	held     bool             // and so on for how it stands
	ahead    int              // as it was known last
	grant    *driver.Standing // that a notice has brought, and no Await has taken yet
	verified time.Time        // when it was last found in its line by a beat
	suspect  bool             // every beat looks for it
	written  bool             // a write of this session that enters it may be under way
	asked    *question        // that is not answered; nil: there is none
	left     chan<- bool      // is told that another engine has taken it out of the line, or false: that it is held; nil: none is asked to
}

// isHeld reports whether a claim is held, as far as is known.
func (s *claimState) isHeld() bool { return s.held || s.grant != nil }

func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Lost() <-chan struct{}  { return nil }
func (s *session) Ended() <-chan struct{} { return s.claims.Ended() }

// begin says whether a call may be sent.
func (s *session) begin(ctx context.Context) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return driver.ErrGone
	}
	return nil
}

// fresh reports whether a claim has certainly not expired.
func (s *session) fresh(c driver.Claim) bool {
	s.mu.Lock()
	age := s.renewed.age()
	s.mu.Unlock()
	return age < s.ttl/2 && s.state(c).token != 0
}

// state returns what is known of a claim; nothing if it is not one of the session.
func (s *session) state(c driver.Claim) (state claimState) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { state = p.State })
	return state
}

// stands takes in how a claim stands.
func (s *session) stands(c driver.Claim, token uint64, st driver.Standing) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
		held := st.Held || p.State.held && p.State.token == token // an answer that was overtaken takes no grant back
		p.State.token, p.State.held, p.State.ahead = token, held, st.Ahead
	})
}

func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	p := s.claims.Find(c.ID, c.Try)
	if p == nil {
		return driver.Standing{Gone: true}, nil
	}
	return driverkit.Await(ctx, s, &p.Waiter, s.e.turns, c, last)
}

// TakeGrant returns the grant that a notice has brought.
func (s *session) TakeGrant(_ context.Context, c driver.Claim) (st driver.Standing, taken bool, err error) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
		if g := p.State.grant; g != nil {
			p.State.grant = nil
			p.Waiter.Current(0)                                   // a further Await looks
			if st, taken = *g, g.Token == p.State.token; !taken { // of an earlier place in line
				p.Waiter.Wake()
				return
			}
			p.State.held = true
		}
	})
	return st, taken, nil
}

// Look reads how a claim stands, after those at the front that have expired were ended. A
// claim far behind is as it was when the engine learnt of its line a while ago: in a long
// line there can be thousands of them.
func (s *session) Look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	place := func(l line) int {
		return slices.IndexFunc(l, func(o claim) bool { return o.ID == c.ID && o.Try == c.Try })
	}
	generation, _, _ := s.e.turns.State()
	l := s.e.known.lately(c.Name, s.ttl/2, generation)
	if i := place(l); i >= l.held()+near && !s.state(c).suspect {
		now, err := s.e.store.Now(ctx, time.Hour)
		return s.e.standing(l, i, c.Name, now), err
	}
	l, now, err := s.e.update(ctx, c.Name, mode{judged: true}, func(l *line, now time.Time) error {
		i := place(*l)
		if i < 0 {
			return absent{}
		}
		if (*l)[i].old(now) {
			(*l)[i].Beat = 0
		}
		return nil
	})
	switch {
	case errors.Is(err, absent{}):
		return driver.Standing{Gone: true}, nil
	case err != nil:
		return driver.Standing{}, err
	}
	i := place(l)
	st := s.e.standing(l, i, c.Name, now)
	s.stands(c, l[i].Token, st)
	return st, nil
}
