package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// Beat prolongs every claim at every node. A claim that a majority still holds is
// entered again at the nodes that lack it, so that a long hold survives nodes that are
// lost and come back one after the other.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.newBeat(live)
	if end, limited := ctx.Deadline(); limited { // a node answers for what it has reached by then
		b.until = time.Now().Add(time.Until(end) * 5 / 6)
	}
	errs, err := s.nodes.All(ctx, b.send, b.decided)
	if errors.Is(err, driver.ErrGone) {
		return err
	}
	b.update(errs)
	answered := 0
	for i := range errs {
		if b.arrived[i] && (errs[i] == nil || errors.Is(errs[i], driver.ErrGone)) {
			answered++
		}
	}
	for k, c := range live {
		if out[k] = b.standing(k); out[k].Gone {
			s.leaveGone(c)
		}
	}
	b.reenterMissing()
	if answered < s.e.set.Majority {
		if err != nil {
			return err
		}
		return s.e.set.TooFew(answered, errs)
	}
	return nil
}

// A beat is the nodes' answers to one Beat.
type beat struct {
	s       *session
	claims  []driver.Claim
	answers [][]driver.Standing // by node, then by claim; a node's may be read once it has arrived
	arrived []bool              // by node
	until   time.Time           // when the nodes' calls end, before the caller stops waiting for them; zero: by themselves
}

func (s *session) newBeat(live []driver.Claim) *beat {
	b := &beat{s: s, claims: slices.Clone(live), arrived: make([]bool, len(s.e.set.Nodes))}
	for k := range b.claims {
		b.claims[k].Propose = 0
	}
	for range b.arrived {
		b.answers = append(b.answers, make([]driver.Standing, len(live)))
	}
	return b
}

// send beats at one node.
func (b *beat) send(ctx context.Context, i int, at *nodes.Session) error {
	if !b.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, b.until)
		defer cancel()
	}
	err := at.Check(at.Beat(ctx, b.claims, b.answers[i]))
	b.rejectUnknownGrants(i)
	if errors.Is(err, driver.ErrGone) {
		for k := range b.claims {
			b.answers[i][k] = driver.Standing{Gone: true}
		}
	}
	return err
}

// rejectUnknownGrants turns into Gone what node i holds by a grant that this session
// did not receive. That happens when a delayed Enter arrives after the claim was
// evicted there or had expired: it enters the claim again, and a rival may have held
// the name in between. Where a majority holds by known grants, the claim is entered
// again at the node, which then reports its grant.
func (b *beat) rejectUnknownGrants(i int) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	for k, c := range b.claims {
		cs, st := b.s.findLocked(c), &b.answers[i][k]
		if cs != nil && st.Held && st.Token != cs.granted[i] && !slices.Contains(cs.confirming, st.Token) {
			*st = driver.Standing{Gone: true}
		}
	}
}

// update records which nodes have answered.
func (b *beat) update(errs []error) {
	for i, err := range errs {
		b.arrived[i] = !errors.Is(err, nodes.ErrPending)
	}
}

// decided reports whether further answers would change nothing.
func (b *beat) decided(errs []error) bool {
	b.update(errs)
	answers := 0
	for _, arrived := range b.arrived {
		if arrived {
			answers++
		}
	}
	if answers < b.s.e.set.Majority {
		return false
	}
	for k := range b.claims {
		if st := b.standing(k); st.Valid == 0 && !st.Gone {
			return false
		}
	}
	return true
}

// standing answers for one claim: held by a majority, gone because no majority can
// hold it any more, or unknown.
func (b *beat) standing(k int) driver.Standing {
	held, gone := 0, 0
	for i, arrived := range b.arrived {
		if !arrived {
			continue
		}
		switch st := b.answers[i][k]; {
		case st.Gone, st.Valid > 0 && !st.Held:
			gone++
		case st.Held && st.Valid > 0:
			held++
		}
	}
	switch majority := b.s.e.set.Majority; {
	case held >= majority:
		return driver.Standing{Held: true, Token: b.s.token(b.claims[k]), Valid: b.s.ttl}
	case gone > len(b.arrived)-majority:
		return driver.Standing{Gone: true}
	}
	return driver.Standing{}
}

// token returns the token of a claim that is held.
func (s *session) token(c driver.Claim) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs := s.findLocked(c); cs != nil {
		return cs.token
	}
	return 0
}

// leaveGone gives back what a minority still holds of a claim that is gone.
func (s *session) leaveGone(c driver.Claim) {
	s.mu.Lock()
	cs := s.findLocked(c)
	known := cs != nil && !cs.left
	s.mu.Unlock()
	if known {
		s.leaveNodes(cs, func(int) func(error) { return func(error) {} })
	}
}

// reenterMissing enters claims that a majority holds at the nodes that lack them.
func (b *beat) reenterMissing() {
	for k, c := range b.claims {
		if !b.standing(k).Held {
			continue
		}
		for i, arrived := range b.arrived {
			if arrived && b.answers[i][k].Gone {
				b.s.reenter(i, c)
			}
		}
	}
}

// reenter enters a claim at one node, unless the claim was left.
func (s *session) reenter(i int, c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs := s.findLocked(c); cs != nil && !cs.left && !s.closed {
		s.enterLocked(s.nodes.Round(1), i, cs, c, make(chan vote, 1))
	}
}
