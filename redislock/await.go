package redislock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// deafPause is how long a waiter waits for its subscription to come up before it
// looks for itself.
const deafPause = 100 * time.Millisecond

// Await waits for word of the claim or for its pause. It looks first unless the
// subscription was up, without a break, since before the claim was entered: then
// no word can have been missed.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	e := s.e
	a, err := e.listen(e.keys.channel(e.id, c.Name), e.deliver)
	if err != nil {
		return driver.Standing{}, driver.ErrGone
	}
	defer e.ignore(a)
	turn := s.awaiting(&c)
	if turn == nil {
		return s.look(ctx, c)
	}
	s.planned(&c, last)
	for {
		if token := s.take(&c); token != 0 {
			return s.confirm(ctx, &c, token)
		}
		now, changed, why := e.state(a)
		pause := s.patience(&c)
		switch {
		case now == 0:
			if code(why) != "" && !passing(why) { // the server refuses: it will not come up
				return driver.Standing{}, fault(why)
			}
			pause = min(max(pause, time.Millisecond), deafPause)
		case !s.heardSince(&c, now):
			s.heardFrom(&c, now) // before the look: word that comes during it undoes it
			st, err := s.look(ctx, c)
			if err != nil || st.Held || st.Gone {
				s.heardFrom(&c, 0)
				return st, err
			}
			s.planned(&c, st)
			if driverkit.Blocker(st) != driverkit.Blocker(last) {
				return st, nil
			}
			continue
		case pause <= 0:
			return s.look(ctx, c)
		}
		switch passed, err := s.rest(ctx, pause, turn, changed); {
		case err != nil:
			return driver.Standing{}, err
		case passed && now == 0:
			return s.look(ctx, c)
		}
	}
}

// rest waits for something to happen, and reports whether pause passed instead.
func (s *session) rest(ctx context.Context, pause time.Duration, turn, changed <-chan struct{}) (passed bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-turn:
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

// look asks how c stands, and settles its line.
func (s *session) look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	at, own := s.of(&c)
	r, err := s.e.run(ctx, lookScript, 4, at.keys(own, s.millis, "0"))
	if err != nil {
		return driver.Standing{}, s.e.faultAt(c.Name, err)
	}
	st, err := s.standing(&c, r)
	st.Valid = 0 // nothing was prolonged
	switch {
	case err != nil:
	case st.Gone:
		s.ended(c)
	case st.Held:
		s.entered(&c, true)
		return s.confirm(ctx, &c, st.Token)
	default:
		s.expects(&c, r)
	}
	return st, err
}

// expects notes with which token a claim that waits will hold.
func (s *session) expects(c *driver.Claim, r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		p.comes = comes(r)
	}
}

// awaiting returns what tells that there is word of c; nil if c is not known.
func (s *session) awaiting(c *driver.Claim) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	if p == nil || p.claim.Try != c.Try {
		return nil
	}
	if p.turn == nil {
		p.turn = make(chan struct{}, 1)
	}
	return p.turn
}

// told leaves word of a claim with it.
func (s *session) told(id string, try int, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[id]
	if p == nil || p.claim.Try != try || p.taken {
		return
	}
	p.token = token
	if token == 0 {
		p.heard = 0
	}
	p.wakeLocked()
}

// take returns the token of a grant that c was told of, once: who asks again
// after that wants to know how it stands now. Word of another token than the one it
// waits for says only that it should look: the claim may have been let in before, while
// the answer to its Enter was lost, have ended, and been entered again.
func (s *session) take(c *driver.Claim) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	if p == nil || p.claim.Try != c.Try || p.token == 0 {
		return 0
	}
	token := p.token
	p.token, p.heard = 0, 0
	if token != p.comes {
		return 0
	}
	p.taken = true
	return token
}

func (s *session) heardSince(c *driver.Claim, beginning uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	return p != nil && p.claim.Try == c.Try && p.heard == beginning
}

func (s *session) heardFrom(c *driver.Claim, beginning uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		p.heard = beginning
	}
}
