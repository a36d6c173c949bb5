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
	asked    *question        // that is not answered; nil: there is none
}

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

func (s *session) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	if err := s.begin(ctx); err != nil {
		return st, err
	}
	p, before, err := s.claims.Add(ctx, c, claimState{})
	if err != nil {
		return st, err
	}
	generation, _, _ := s.e.turns.State()
	p.Waiter.Current(generation)
	trust := before == nil || s.fresh(c)
	s.stands(c, 0, st) // until it is answered, what the line has of it is right
	sent, tries, to := false, 0, ""
	change := func(l *line, now time.Time) (err error) {
		if to = s.e.toAsk(*l, tries, now); to != "" && c.Queue && l.find(c.ID) < 0 && !l.refuses(c.Need, c.Limit) {
			return errAsk
		}
		tries++
		st, err = s.enter(l, c, now)
		sent = sent || err == nil
		return err
	}
	var (
		l   line
		now time.Time
	)
	for q := s.state(c).asked; ; { // of an earlier call, or nil
		if q == nil {
			if l, now, err = s.enterLine(ctx, c.Name, trust, change); !errors.Is(err, errAsk) {
				break
			}
			q = s.ask(c, s.claim(c, now), to, l, now)
		}
		at, entered := s.entered(ctx, c, q)
		switch {
		case entered:
			return s.stays(ctx, c, s.answered(c, q, at))
		case s.claims.Closed():
			return st, driver.ErrGone
		case ctx.Err() != nil: // it may be there later
			return st, ctx.Err()
		}
		q, sent, tries = nil, true, notNow
	}
	switch {
	case err != nil && (!sent || errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrLimit)): // nothing was written
		s.claims.Refused(p, before)
		return st, err
	case err != nil: // it may be there
		return st, err
	case st.Gone:
		return st, nil
	}
	i := l.find(c.ID)
	if i < 0 { // not held, and left no trace
		s.claims.End(c)
		return st, nil
	}
	st = s.e.standing(l, i, c.Name, now)
	s.stands(c, l[i].Token, st)
	if n := len(l); s.e.judge(ctx, &l, now) == nil && len(l) < n { // it was entered into a line that was not read
		if is, err := s.Look(ctx, c); err == nil && !is.Gone {
			st = is
		}
	}
	return s.stays(ctx, c, st)
}

// answered returns how a claim stands that another engine has entered.
func (s *session) answered(c driver.Claim, q *question, at place) (st driver.Standing) {
	if at.Held {
		st.Held, st.Token = true, at.Token
	} else {
		l := append(slices.Clone(q.line), q.claim)
		st = s.e.standing(l, len(l)-1, c.Name, time.Unix(0, q.claim.Since))
	}
	st.Ahead = at.Ahead
	s.stands(c, at.Token, st)
	return st
}

// enterLine changes the line for Enter. Calls of one engine would only refuse each other;
// Beat and Leave do not wait here.
func (s *session) enterLine(ctx context.Context, name string, trust bool, change func(l *line, now time.Time) error) (line, time.Time, error) {
	if err := s.e.entering.begin(ctx, name); err != nil {
		return nil, time.Time{}, err
	}
	defer s.e.entering.end(name)
	return s.e.update(ctx, name, mode{trust: trust, judged: true}, change)
}

// stays answers for a claim that was entered, unless Close may have looked before that.
func (s *session) stays(ctx context.Context, c driver.Claim, st driver.Standing) (driver.Standing, error) {
	if s.claims.Closed() {
		_ = s.leave(ctx, c) // what stays expires
		return driver.Standing{}, driver.ErrGone
	}
	return st, nil
}

// enter puts a claim into its line, or finds it there. What it answers counts where the
// claim is not in the line afterwards.
func (s *session) enter(l *line, c driver.Claim, now time.Time) (driver.Standing, error) {
	i := l.find(c.ID)
	switch {
	case i >= 0 && (*l)[i].Try > c.Try: // delivered late
		return driver.Standing{Gone: true}, nil
	case i >= 0 && (*l)[i].Try < c.Try:
		l.remove(i)
		i = -1
	}
	if i >= 0 {
		(*l)[i].Beat = 0 // the line is written: it may have been an old one
		return driver.Standing{}, nil
	}
	if l.refuses(c.Need, c.Limit) {
		return driver.Standing{}, driver.ErrLimit
	}
	*l = append(*l, s.claim(c, now))
	l.grant(now)
	i = len(*l) - 1
	st := s.e.standing(*l, i, c.Name, now)
	if !st.Held && !c.Queue {
		l.remove(i)
	}
	return st, nil
}

// claim returns how c is stored.
func (s *session) claim(c driver.Claim, now time.Time) claim {
	return claim{
		ID: c.ID, Try: c.Try, Need: c.Need, Limit: c.Limit, Queue: c.Queue, Note: c.Note,
		Session: s.id, Engine: s.e.address, TTL: lineTTL(s.ttl), Since: now.UnixNano(),
	}
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

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

func (s *session) leave(ctx context.Context, c driver.Claim) error {
	var out [1]error
	s.leaveName(ctx, []driver.Claim{c}, out[:], s.fresh(c))
	return out[0]
}

// LeaveAll leaves the line of each name with one write.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if err := s.claims.Begin(ctx); err != nil {
		for i := range out {
			out[i] = err
		}
		return
	}
	byName := byName(cs)
	each(len(byName), func(n int) {
		which := byName[n]
		some, errs := make([]driver.Claim, len(which)), make([]error, len(which))
		fresh := true
		for n, i := range which {
			some[n] = cs[i]
			fresh = fresh && s.fresh(cs[i])
		}
		s.leaveName(ctx, some, errs, fresh)
		for n, i := range which {
			out[i] = errs[n]
		}
	})
}

// byName returns the indices of the claims of each name, in the order in which the names
// come first.
func byName(cs []driver.Claim) (all [][]int) {
	at := map[string]int{}
	for i, c := range cs {
		n, ok := at[c.Name]
		if !ok {
			n = len(all)
			at[c.Name], all = n, append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// leaveName leaves claims of one name with one write.
func (s *session) leaveName(ctx context.Context, cs []driver.Claim, out []error, trust bool) {
	defer s.e.asks.leave(cs[0].Name)()
	_, _, err := s.e.update(ctx, cs[0].Name, mode{trust: trust, admits: true}, func(l *line, _ time.Time) error {
		var result error = driver.ErrGone // where nothing is left, nothing is written
		for n, c := range cs {
			i := l.find(c.ID)
			_, mayBeThere := s.claims.Current(c.ID)
			switch {
			case i < 0 && mayBeThere:
				out[n], result = driver.ErrGone, s.absent()
			case i < 0 || (*l)[i].Try > c.Try:
				out[n] = driver.ErrGone
			default:
				l.remove(i)
				out[n] = nil
			}
		}
		if result == s.absent() || !slices.Contains(out, nil) {
			return result
		}
		return nil
	})
	if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, s.absent()) {
		for n := range cs {
			out[n] = err
		}
		return
	}
	for _, c := range cs {
		s.withdraw(c)
		s.claims.End(c)
	}
}

// maxLate bounds for how long a write that was given up is taken to be under way.
const maxLate = time.Minute

// absent is for a claim whose Enter may be under way. The core waits for it as long.
func (s *session) absent() absent { return absent{min(s.ttl, maxLate)} }

// Close leaves the lines of the claims that are left, each with one write, and deletes the
// session's value: what could not be left ends with it.
func (s *session) Close(ctx context.Context) error {
	s.e.sessions.Remove(s.id, s)
	left := s.claims.Close()
	byName := byName(left)
	errs := make([]error, len(byName)+1)
	each(len(byName), func(n int) {
		some, out := make([]driver.Claim, 0, len(byName[n])), make([]error, len(byName[n]))
		for _, i := range byName[n] {
			some = append(some, left[i])
		}
		s.leaveName(ctx, some, out, false)
		for _, err := range out {
			if !errors.Is(err, driver.ErrGone) {
				errs[n] = err
			}
		}
	})
	errs[len(byName)] = s.end(ctx)
	return driver.Join(errs...)
}
