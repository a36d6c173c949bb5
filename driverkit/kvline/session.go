package kvline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A session is one client's claims. Each has an expiry of its own, in its line.
type session struct {
	e      *Engine
	id     string
	ttl    time.Duration
	claims *driverkit.Claims[claimState]
}

// claimState is guarded by the table of claims.
type claimState struct {
	token   uint64           // as the last Enter was answered; 0: not yet
	grant   *driver.Standing // that a notice has brought, and no Await has taken yet
	renewed moment           // when the last call that prolonged it was sent
}

// A moment is read from two clocks. One of them also counts while the machine sleeps, the
// other one is that of timers, which tests can set.
type moment struct {
	boot  driverkit.Instant
	timer time.Time
}

func present() moment { return moment{driverkit.Now(), time.Now()} }

func (m moment) age() time.Duration { return max(driverkit.Now().Sub(m.boot), time.Since(m.timer)) }

func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Lost() <-chan struct{}  { return nil }
func (s *session) Ended() <-chan struct{} { return s.claims.Ended() }

// fresh reports whether a claim has certainly not expired.
func (s *session) fresh(c driver.Claim) (yes bool) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
		yes = p.State.token != 0 && p.State.renewed.age() < s.ttl/2
	})
	return yes
}

// token returns the token that the last Enter of a claim was answered with; 0: it was
// not yet.
func (s *session) token(c driver.Claim) (token uint64) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { token = p.State.token })
	return token
}

func (s *session) renewed(c driver.Claim, token uint64, sent moment) {
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.token, p.State.renewed = token, sent })
}

func (s *session) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	// Calls of one engine would only refuse each other. Beat and Leave do not wait here.
	if err := s.e.entering.begin(ctx, c.Name); err != nil {
		return st, err
	}
	defer s.e.entering.end(c.Name)
	p, before, err := s.claims.Add(ctx, c, claimState{})
	if err != nil {
		return st, err
	}
	generation, _, _ := s.e.turns.State()
	p.Waiter.Current(generation)
	sent := present()
	trust, asked := before == nil || s.fresh(c), false
	s.renewed(c, 0, sent) // until it is answered, what the line has of it is right
	l, now, err := s.e.update(ctx, c.Name, trust, func(l *line, now time.Time) (err error) {
		st, err = s.enter(l, c, now)
		asked = asked || err == nil
		return err
	})
	switch {
	case err != nil && (!asked || errors.Is(err, driver.ErrDenied)): // nothing was written
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
	s.renewed(c, l[i].Token, sent)
	if s.claims.Closed() { // Close may have looked before it was there
		_ = s.leave(ctx, c) // what stays expires
		return driver.Standing{}, driver.ErrGone
	}
	st = l.standing(i, c.Name, now)
	st.Valid = s.ttl
	return st, nil
}

// enter puts a claim into its line, or prolongs it. What it answers counts where the
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
		(*l)[i].Beat = 0
		return driver.Standing{}, nil
	}
	for _, o := range *l {
		if !c.Exclusive() && o.Need < o.Limit && o.Limit != c.Limit {
			return driver.Standing{}, driver.ErrLimit
		}
	}
	*l = append(*l, claim{
		ID: c.ID, Try: c.Try, Need: c.Need, Limit: c.Limit, Queue: c.Queue, Note: c.Note,
		Session: s.id, Engine: s.e.address, TTL: s.ttl, Since: now.UnixNano(),
	})
	l.grant(now)
	i = len(*l) - 1
	st := l.standing(i, c.Name, now)
	if !st.Held && !c.Queue {
		l.remove(i)
	}
	return st, nil
}

func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
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
			}
		}
	})
	return st, taken, nil
}

// Look reads how a claim stands, after those that have expired were ended.
func (s *session) Look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	place := func(l line) int {
		return slices.IndexFunc(l, func(o claim) bool { return o.ID == c.ID && o.Try == c.Try })
	}
	l, now, err := s.e.update(ctx, c.Name, false, func(l *line, _ time.Time) error {
		if place(*l) < 0 {
			return absent{}
		}
		return nil
	})
	switch {
	case errors.Is(err, absent{}):
		return driver.Standing{Gone: true}, nil
	case err != nil:
		return driver.Standing{}, err
	}
	return l.standing(place(l), c.Name, now), nil
}

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

func (s *session) leave(ctx context.Context, c driver.Claim) error {
	_, mayBeThere := s.claims.Current(c.ID)
	_, _, err := s.e.update(ctx, c.Name, s.fresh(c), func(l *line, _ time.Time) error {
		switch i := l.find(c.ID); {
		case i < 0 && mayBeThere:
			return s.absent()
		case i < 0 || (*l)[i].Try > c.Try:
			return driver.ErrGone
		default:
			l.remove(i)
			return nil
		}
	})
	if errors.Is(err, s.absent()) {
		err = driver.ErrGone
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.claims.End(c)
	}
	return err
}

// maxLate bounds for how long a write that was given up is taken to be under way.
const maxLate = time.Minute

// absent is for a claim whose Enter may be under way. The core waits for it as long.
func (s *session) absent() absent { return absent{min(s.ttl, maxLate)} }

// Close leaves the lines of the claims that are left, each with one write.
func (s *session) Close(ctx context.Context) error {
	s.e.sessions.Remove(s.id, s)
	byName := map[string][]driver.Claim{}
	for _, c := range s.claims.Close() {
		byName[c.Name] = append(byName[c.Name], c)
	}
	names := slices.Collect(maps.Keys(byName))
	errs := make([]error, len(names))
	each(len(names), func(i int) { errs[i] = s.leaveAll(ctx, names[i], byName[names[i]]) })
	return driver.Join(errs...)
}

func (s *session) leaveAll(ctx context.Context, name string, all []driver.Claim) error {
	_, _, err := s.e.update(ctx, name, false, func(l *line, _ time.Time) error {
		var err error
		for _, c := range all {
			switch i := l.find(c.ID); {
			case i < 0:
				err = s.absent()
			case (*l)[i].Try <= c.Try:
				l.remove(i)
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, s.absent()) {
		return err
	}
	for _, c := range all {
		s.claims.End(c)
	}
	return nil
}

// atOnce is how many writes of a session are under way at a time.
const atOnce = 64

// each calls f for 0 to n-1, some at a time, and waits.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
