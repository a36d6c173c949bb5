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

// Beat prolongs the session with one write, whatever the number of its claims. Claims can
// be ended by others all the same: by an operator, who tells the session first, or by who
// writes to the store by hand. So a beat also reads the lines of some claims, beside
// the write: of a few hundred all of them, and of many each one every some beats.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	before := make([]claimState, len(live))
	for i, c := range live {
		before[i] = s.state(c)
	}
	answers := newAnswers(len(live))
	var reading sync.WaitGroup
	reading.Go(func() { s.verify(ctx, live, s.toVerify(live, before), answers) })
	reading.Go(func() { s.leaveWithdrawn(ctx) })
	err := s.prolong(ctx)
	reading.Wait()
	if err == nil {
		s.verify(ctx, live, s.toldSince(live, before), answers)
	}
	if errors.Is(err, driver.ErrGone) {
		return err
	}
	for i, c := range live {
		switch st, learnt := answers.of(i); {
		case learnt && st.Gone:
			out[i] = st
			s.claims.End(c)
		case err != nil:
		case learnt:
			st.Valid = s.ttl
			out[i] = st
		case before[i].token != 0 && !s.state(c).suspect:
			out[i] = driver.Standing{Held: before[i].held, Ahead: before[i].ahead, Valid: s.ttl}
			if before[i].held {
				out[i].Token = before[i].token
			}
		}
	}
	return driver.Join(err, answers.err)
}

// answers are what was found in lines.
type answers struct {
	mu     sync.Mutex // guards what follows
	all    []driver.Standing
	learnt []bool
	err    error
}

func newAnswers(n int) *answers {
	return &answers{all: make([]driver.Standing, n), learnt: make([]bool, n)}
}

func (a *answers) of(i int) (driver.Standing, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[i], a.learnt[i]
}

func (a *answers) set(i int, st driver.Standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[i], a.learnt[i] = st, true
}

func (a *answers) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = driver.Join(a.err, err)
}

// A beat looks for verifyMost claims, or for one in verifyPart if these are more.
const (
	verifyMost = 256
	verifyPart = 32
)

// toVerify returns the claims that a beat looks for: those of which nothing is known or
// something was heard, and of those that are held or near the front the ones that were not
// looked for longest.
func (s *session) toVerify(live []driver.Claim, known []claimState) (which []int) {
	var others []int
	for i := range live {
		switch k := known[i]; {
		case k.token == 0 || k.suspect || k.grant != nil:
			which = append(which, i)
		case k.held || k.ahead < near:
			others = append(others, i)
		}
	}
	most := max(verifyMost, len(live)/verifyPart)
	if len(others) > most {
		slices.SortStableFunc(others, func(a, b int) int { return known[a].verified.Compare(known[b].verified) })
		others = others[:most]
	}
	return append(which, others...)
}

// toldSince returns the claims that the session was told to look for.
func (s *session) toldSince(live []driver.Claim, before []claimState) (which []int) {
	for i, c := range live {
		if s.state(c).suspect && !before[i].suspect {
			which = append(which, i)
		}
	}
	return which
}

// verify reads the lines of claims.
func (s *session) verify(ctx context.Context, live []driver.Claim, which []int, to *answers) {
	some := make([]driver.Claim, len(which))
	for n, i := range which {
		some[n] = live[i]
	}
	names := byName(some)
	each(len(names), func(n int) {
		of := make([]int, len(names[n]))
		for k, j := range names[n] {
			of[k] = which[j]
		}
		s.verifyName(ctx, live, of, to)
	})
}

// verifyName reads one line. Without an answer nothing is learnt, and the claims live by
// their session; but not where something else is found.
func (s *session) verifyName(ctx context.Context, live []driver.Claim, which []int, to *answers) {
	name := live[which[0]].Name
	sent := time.Now()
	l, _, err := s.e.fetch(ctx, name)
	now := time.Time{}
	if err == nil {
		now, err = s.e.clock(ctx, l)
	}
	doubt := errors.Is(err, errForeign)
	for _, i := range which {
		at := l.find(live[i].ID)
		doubt = doubt || err == nil && (at < 0 || !s.same(live[i], l[at]) || s.state(live[i]).held && !l[at].Held || l[at].old(now))
	}
	if err == nil && doubt {
		l, now, err = s.confirm(ctx, live, which)
	}
	if err != nil {
		if doubt {
			s.suspect(live, which)
			to.fail(err)
		}
		return
	}
	for _, i := range which {
		c := live[i]
		at := l.find(c.ID)
		if at < 0 || l[at].Try != c.Try {
			to.set(i, driver.Standing{Gone: true})
			continue
		}
		st := s.e.standing(l, at, name, now)
		s.stands(c, l[at].Token, st)
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
			p.State.verified = sent
			if st.Held { // if the notice of its grant was missed, this ends its Await
				p.Waiter.Wake()
			}
		})
		to.set(i, st)
	}
}

// same reports whether what is in line is the claim as it was entered.
func (s *session) same(c driver.Claim, in claim) bool {
	token := s.state(c).token
	return in.Try == c.Try && (token == 0 || token == in.Token)
}

func (s *session) suspect(live []driver.Claim, which []int) {
	for _, i := range which {
		s.claims.With(live[i].ID, live[i].Try, func(p *driverkit.Claimed[claimState]) { p.State.suspect = true })
	}
}

// confirm writes the line of claims again, so that it is certain which of them are in it.
func (s *session) confirm(ctx context.Context, live []driver.Claim, which []int) (line, time.Time, error) {
	l, now, err := s.e.update(ctx, live[which[0]].Name, mode{}, func(l *line, _ time.Time) error {
		var err error = absent{}
		for _, i := range which {
			at := l.find(live[i].ID)
			switch {
			case at < 0 || (*l)[at].Try != live[i].Try:
			case !s.same(live[i], (*l)[at]): // entered again by a write that arrived late
				err = nil
				l.remove(at)
			default:
				err = nil
				(*l)[at].Beat = 0
			}
		}
		return err
	})
	if errors.Is(err, absent{}) {
		err = nil
	}
	return l, now, err
}
