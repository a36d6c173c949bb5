package sqllock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// session is one client's claims. Its life is theirs: each has an expiry of its
// own, set by Enter and moved by Beat.
type session struct {
	e   *Engine
	id  string
	ttl time.Duration

	mu     sync.Mutex              // guards what follows
	claims map[string]driver.Claim // what may be in a line: added before it is sent, removed when it has certainly ended
	spots  map[string]spotHint     // where claims were last seen
	closed bool

	unbeaten string              // the name with which the next beat begins
	chunk    int                 // how many claims a flight of a beat takes
	vain     map[string]struct{} // claims whose row the last beat has waited for in vain

	marks map[string]guardMark // of claims that transactions were guarded by

	crossings map[*crossing]struct{} // flights that enter claims, under way or cut

	life context.Context // of crossings
	cut  context.CancelFunc
}

// A spotHint is where a claim was last seen, so that a beat finds it by key. It
// may have moved since.
type spotHint struct {
	token int64
	head  bool // in the head row, not in the line
	waits bool // in the line, and not let in
}

var _ driver.Multi = (*session)(nil)

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// begin says whether a call may go out, and remembers the claims it is to enter.
func (s *session) begin(ctx context.Context, enter ...driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	for _, c := range enter {
		if have, ok := s.claims[c.ID]; !ok || have.Try < c.Try { // a late one does not hide its successor
			s.claims[c.ID] = c
		}
	}
	return nil
}

// ended forgets a claim that is certainly not in a line, unless a later try of
// it was sent meanwhile.
func (s *session) ended(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.claims[c.ID]; ok && have.Try <= c.Try {
		delete(s.claims, c.ID)
		delete(s.spots, c.ID)
		delete(s.vain, c.ID)
		delete(s.marks, c.ID)
	}
}

// saw notes where a claim stands.
func (s *session) saw(c driver.Claim, at spotHint) {
	s.mu.Lock()
	turn := false
	if have, ok := s.claims[c.ID]; ok && have.Try == c.Try {
		turn = s.spots[c.ID].waits && !at.waits
		s.spots[c.ID] = at
	}
	s.mu.Unlock()
	if turn {
		s.e.turned(c.ID)
	}
}

func (s *session) args(c driver.Claim) *Args {
	a := s.e.args(c)
	a.text[SessionID] = s.id
	a.setDuration(TTL, s.ttl)
	return a
}

// Enter takes a free name in one statement; whatever is not exclusive or not
// free goes through the queueing flight.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.begin(ctx, c); err != nil {
		return driver.Standing{}, err
	}
	a := s.args(c)
	if c.Exclusive() {
		token, err := s.take(ctx, a, !c.Queue)
		if err != nil {
			return s.locked(c, err)
		}
		if token != 0 {
			s.saw(c, spotHint{token: token, head: true})
			return driver.Standing{Held: true, Token: uint64(token), Valid: s.ttl}, s.entered(ctx, a)
		}
	}
	if !c.Queue && s.e.d.Census == nil {
		if st, vain, err := s.inVain(ctx, c, a); vain || err != nil {
			return st, err
		}
	}
	st, stands, err := s.stand(ctx, c, a)
	if err != nil {
		return driver.Standing{}, err
	}
	if stands {
		return st, s.entered(ctx, a)
	}
	all, err := s.join(ctx, []driver.Claim{c}, []*Args{a}, false)
	if err != nil {
		return s.locked(c, err)
	}
	return all[0], s.entered(ctx, a)
}

// inVain looks before one that only tries is sent through the queueing flight: if
// somebody holds whom it cannot stand beside, nothing needs to be written to say
// so. Where processes are known to be dead, the flight finds them.
func (s *session) inVain(ctx context.Context, c driver.Claim, a *Args) (st driver.Standing, vain bool, err error) {
	l := look{name: c.Name}
	if err := s.e.d.Store.Read(ctx, &Step{Query: s.e.q.standing, Args: a, Row: l.scan}); err != nil {
		return driver.Standing{}, false, err
	}
	whole := c.Exclusive() || l.first.need >= l.first.limit
	if l.known || l.clash || l.first.held == 0 || !whole || l.expiry <= l.now {
		return driver.Standing{}, false, nil
	}
	s.ended(c)
	return driver.Standing{Ahead: l.ahead, Holder: l.holder(), Pause: l.pause()}, true, nil
}

// locked answers one that only tries where an open transaction has the row: it
// is not held now, and was not entered.
func (s *session) locked(c driver.Claim, err error) (driver.Standing, error) {
	if c.Queue || !errors.Is(err, ErrLocked) {
		return driver.Standing{}, err
	}
	s.ended(c)
	return driver.Standing{Ahead: -1, Pause: guardedPause}, nil
}

// entered ends again what was entered while the session was being closed: Close
// may have looked before it was there.
func (s *session) entered(ctx context.Context, args ...*Args) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if !closed {
		return nil
	}
	for _, a := range args {
		a.set(Upto, a.Int(Try))
		_, _ = s.quit(ctx, a, true) // what stays expires, or is buried
	}
	return driver.ErrGone
}

// take is the one-statement path; token 0 says that it does not lead there.
func (s *session) take(ctx context.Context, a *Args, tries bool) (int64, error) {
	var token int64
	q, first := s.e.q.enter, false // first: the row may have to be made, which a sweep must wait for
	if s.e.q.again.Text != "" {
		if first = !s.e.heads.has(a.text[Name]); !first {
			q = s.e.q.again
		}
	}
	f := Flight{Tries: tries || first, Steps: []Step{{Query: q, Args: a, Row: func(r Row) error { return r.Scan(&token) }}}}
	err := s.cross(ctx, []*Args{a}, func(ctx context.Context) error { return s.e.d.Store.Run(ctx, &f) })
	locked := errors.Is(err, ErrLocked) // an open transaction has the row, so it is there
	if first && (token != 0 || locked) {
		s.e.heads.add(a.text[Name])
	}
	if first && locked && !tries && ctx.Err() == nil {
		return 0, nil // the queueing flight waits for the row, in no sweep's way
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}
