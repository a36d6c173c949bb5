package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// Beat prolongs every claim at every node. A claim that a majority still holds
// is entered again at the nodes that lack it, so that a long hold survives nodes
// that come and go one after the other.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	claims := make([]driver.Claim, len(live))
	for k, c := range live {
		claims[k] = c
		claims[k].Propose = 0
	}
	said := make([][]driver.Standing, len(s.seats))
	for i := range said {
		said[i] = make([]driver.Standing, len(live))
	}
	p := &pulse{s: s, claims: claims, said: said, heard: make([]bool, len(s.seats))}
	errs, err := s.everywhere(ctx, func(ctx context.Context, i int, at *place) error {
		err := at.Beat(ctx, claims, said[i])
		s.disown(i, claims, said[i])
		if errors.Is(err, driver.ErrNoVote) {
			s.e.mender.kick()
		}
		if errors.Is(err, driver.ErrGone) {
			s.seats[i].drop(s.ctx, at)
			for k := range said[i] {
				said[i][k] = driver.Standing{Gone: true}
			}
		}
		return err
	}, p.decided)
	if errors.Is(err, driver.ErrGone) {
		return err
	}
	p.hear(errs)
	answered := 0
	for i := range s.seats {
		if p.heard[i] && (errs[i] == nil || errors.Is(errs[i], driver.ErrGone)) {
			answered++
		}
	}
	for k, c := range live {
		if out[k] = p.standing(k); out[k].Gone {
			s.clear(c)
		}
	}
	s.repair(p)
	if answered < s.e.majority {
		if err != nil {
			return err
		}
		return s.short(answered, errs)
	}
	return nil
}

// disown makes Gone of claims that node i holds by a grant which this session was
// not told of: an Enter that was long on its way has entered a claim once more that
// was evicted there, or had ended, and others may have held the name in between.
// Where a majority still holds by grants that are known, the claim is entered again
// at the node, which tells the grant.
func (s *session) disown(i int, claims []driver.Claim, said []driver.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range claims {
		w := s.claims[c.ID]
		if w == nil || w.claim.Try != c.Try || !said[k].Held {
			continue
		}
		if token := said[k].Token; token != w.granted[i] && !slices.Contains(w.tokens, token) {
			said[k] = driver.Standing{Gone: true}
		}
	}
}

// A pulse is the nodes' answers to one beat.
type pulse struct {
	s      *session
	claims []driver.Claim
	said   [][]driver.Standing // by node, then by claim; a node's may be read once it was heard
	heard  []bool
}

func (p *pulse) hear(errs []error) {
	for i, err := range errs {
		p.heard[i] = !errors.Is(err, errWaiting)
	}
}

// decided reports whether more answers would change nothing.
func (p *pulse) decided(errs []error) bool {
	p.hear(errs)
	answers := 0
	for _, heard := range p.heard {
		if heard {
			answers++
		}
	}
	if answers < p.s.e.majority {
		return false
	}
	for k := range p.claims {
		if st := p.standing(k); st.Valid == 0 && !st.Gone {
			return false
		}
	}
	return true
}

// standing answers for one claim: held by a majority, gone because no majority
// can still hold it, or not learnt.
func (p *pulse) standing(k int) driver.Standing {
	held, gone := 0, 0
	for i, heard := range p.heard {
		if !heard {
			continue
		}
		switch st := p.said[i][k]; {
		case st.Gone, st.Valid > 0 && !st.Held:
			gone++
		case st.Held && st.Valid > 0:
			held++
		}
	}
	switch {
	case held >= p.s.e.majority:
		return driver.Standing{Held: true, Token: p.s.token(p.claims[k]), Valid: p.s.o.TTL}
	case gone > len(p.heard)-p.s.e.majority:
		return driver.Standing{Gone: true}
	}
	return driver.Standing{}
}

// token returns the token of a claim that is held.
func (s *session) token(c driver.Claim) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.claims[c.ID]; w != nil && w.claim.Try == c.Try {
		return w.token
	}
	return 0
}

// clear gives back what a few nodes still hold of a claim that is gone.
func (s *session) clear(c driver.Claim) {
	s.mu.Lock()
	w := s.claims[c.ID]
	known := w != nil && w.claim.Try == c.Try && !w.over
	s.mu.Unlock()
	if known {
		s.leaveAll(w, func(int) func(error) { return func(error) {} })
	}
}

// repair enters claims that a majority holds at the nodes that do not.
func (s *session) repair(p *pulse) {
	for k, c := range p.claims {
		if st := p.standing(k); !st.Held {
			continue
		}
		for i, heard := range p.heard {
			if !heard || !p.said[i][k].Gone {
				continue
			}
			s.enterAgain(i, c)
		}
	}
}

// enterAgain enters a claim at one node, unless it is being left.
func (s *session) enterAgain(i int, c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.claims[c.ID]
	if s.closed || w == nil || w.claim.Try != c.Try || w.over {
		return
	}
	s.enterAtLocked(s.group(1), i, w, c, make(chan vote, 1))
}
