package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Enter asks the nodes and comes back with a majority's answer. What the others
// grant later is kept if the claim is held, and undone if not.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	if err := cmp.Or(s.refuse(c), s.e.shared()); err != nil {
		return driver.Standing{}, err
	}
	w := s.wish(c)
	if w == nil {
		return driver.Standing{Gone: true}, nil
	}
	s.e.entering(c)
	sent := time.Now()
	p, err := s.poll(ctx, w)
	if err != nil {
		return driver.Standing{}, err
	}
	t := &p.tally
	if !t.won() {
		return s.defeat(ctx, w, t, sent)
	}
	token, ok, err := s.settle(ctx, w, t, p.ballots)
	if err != nil {
		return driver.Standing{}, err
	}
	valid := s.o.TTL
	if ok && time.Since(sent) >= valid {
		ok = false // given back below: the next one must have the next Try
	}
	if !ok {
		s.undo(ctx, w, t)
		return driver.Standing{Ahead: -1, Pause: s.e.stumble(c.Name, time.Since(sent))}, err
	}
	s.e.entered(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.Standing{}, driver.ErrGone
	}
	w.token = token
	return driver.Standing{Held: true, Token: token, Valid: valid}, nil
}

// refuse answers for what a majority cannot decide.
func (s *session) refuse(c driver.Claim) error {
	switch {
	case c.Queue:
		return fmt.Errorf("quorum: nobody stands in line: %w", driver.ErrUnsupported)
	case c.Limit != 1 && c.Limit != driver.All:
		return fmt.Errorf("quorum: a majority cannot count to %d: %w", c.Limit, driver.ErrUnsupported)
	case !c.Exclusive() && !s.e.features.Shared:
		return fmt.Errorf("quorum: a node does not share: %w", driver.ErrUnsupported)
	case c.Limit == driver.All && c.Need != 1 && c.Need != driver.All:
		return fmt.Errorf("quorum: a majority cannot count: %w", driver.ErrUnsupported)
	}
	return nil
}

// enterAtLocked asks one node.
func (s *session) enterAtLocked(g *group, i int, w *wish, c driver.Claim, ballots chan<- vote) {
	var st driver.Standing
	var at *place
	s.callAtLocked(g, i, w, func(ctx context.Context, p *place) (err error) {
		at = p
		st, err = p.Enter(ctx, c)
		return err
	}, func(err error) {
		switch {
		case errors.Is(err, driver.ErrGone):
			s.seats[i].drop(s.ctx, at)
		case errors.Is(err, driver.ErrNoVote):
			s.e.mender.kick()
		}
		v := vote{node: i, st: st, err: err}
		if v.granted() {
			s.mu.Lock()
			v.same = w.granted[i] == st.Token
			w.granted[i] = st.Token
			s.mu.Unlock()
		}
		ballots <- v
	})
}

// settle finds the token of a claim that has won, and has it confirmed where the
// nodes did not agree on it by themselves.
func (s *session) settle(ctx context.Context, w *wish, t *tally, ballots <-chan vote) (uint64, bool, error) {
	if w.token != 0 {
		held, err := s.heldOn(ctx, t, ballots)
		if held || err != nil {
			return w.token, held, err
		}
	}
	grants := t.grants()
	token, agreed := token(grants, t.majority)
	if agreed {
		return token, true, nil
	}
	s.e.seconds.Add(1)
	for range confirmTries {
		s.mu.Lock()
		w.tokens = append(w.tokens, token)
		s.mu.Unlock()
		ok, err := s.confirm(ctx, w, t, token, ballots)
		if ok || err != nil || w.claim.Exclusive() {
			return token, ok, err
		}
		// Another reader's token, or one of another name, was in the way. A little
		// ahead of everybody's clock nobody is.
		token = max(token, s.e.lead.propose()) + 1 + rand.Uint64N(1000)
	}
	return 0, false, nil
}

// heldOn reports whether a claim that was held before has been held ever since:
// then a majority gives the same answer as it did, and the token stays.
func (s *session) heldOn(ctx context.Context, t *tally, ballots <-chan vote) (bool, error) {
	for {
		same := 0
		for _, v := range t.votes {
			if v.same {
				same++
			}
		}
		if same >= t.majority {
			return true, nil
		}
		if same+t.nodes-len(t.votes) < t.majority {
			return false, nil
		}
		select {
		case v := <-ballots:
			t.votes = append(t.votes, v)
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// confirmTries is how often a reader's token is raised before it is given up.
const confirmTries = 4

// confirm has a majority raise its mark to token. Nodes that grant only now are
// asked too, unless they granted more than the token.
func (s *session) confirm(ctx context.Context, w *wish, t *tally, token uint64, ballots <-chan vote) (bool, error) {
	c := w.node()
	epoch := t.epoch() // of the votes it won by: one that comes late may be of a newer
	answers := make(chan bool, t.nodes)
	asked, agreed, denied := 0, 0, 0
	ask := func(v vote) error {
		asked++
		ok := false
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return driver.ErrGone
		}
		s.goAtLocked(s.group(1), v.node, func(ctx context.Context, p *place) (err error) {
			ok, err = p.voter.Confirm(ctx, c, v.st.Token, token)
			if errors.Is(err, driver.ErrGone) {
				s.seats[v.node].drop(s.ctx, p)
			}
			return err
		}, func(err error) { answers <- ok && err == nil })
		return nil
	}
	for _, v := range t.grants() {
		if err := ask(v); err != nil {
			return false, err
		}
	}
	for agreed < t.majority {
		if late := t.nodes - len(t.votes); asked-denied+late < t.majority {
			return false, nil
		}
		select {
		case ok := <-answers:
			if ok {
				agreed++
			} else {
				denied++
			}
		case v := <-ballots:
			t.votes = append(t.votes, v)
			if v.granted() && v.st.Epoch == epoch && v.st.Token <= token {
				if err := ask(v); err != nil {
					return false, err
				}
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// defeat answers for a claim that no majority granted, and undoes what some did.
func (s *session) defeat(ctx context.Context, w *wish, t *tally, sent time.Time) (driver.Standing, error) {
	if !t.refused() {
		errs := make([]error, t.nodes)
		answered := 0
		for _, v := range t.votes {
			if errs[v.node] = v.err; v.err == nil {
				answered++
			}
		}
		return driver.Standing{}, s.short(answered, errs)
	}
	took := time.Since(sent)
	s.undo(ctx, w, t)
	st := t.refusal()
	for _, v := range t.votes {
		if v.granted() {
			if t.refusals() < t.majority { // else one rival holds it: its departure will be told
				st.Pause = s.e.stumble(w.claim.Name, took)
			}
			if v.st.Epoch != t.epoch() {
				s.e.mender.kick()
			}
		}
	}
	return st, nil
}

// undo gives back a claim that is not held: at once where it was granted, behind
// the caller's back where that is not known.
func (s *session) undo(ctx context.Context, w *wish, t *tally) {
	s.e.undoing(w.claim, t)
	answers := make(chan struct{}, len(s.seats))
	waiting := 0
	s.leaveAll(w, func(i int) func(error) {
		granted, answered := voteOf(t, i)
		switch {
		case granted:
			waiting++
			return func(error) { answers <- struct{}{} }
		case answered:
			return nil // it holds nothing of ours
		}
		return func(error) {}
	})
	for range waiting {
		select {
		case <-answers:
		case <-ctx.Done():
			return
		}
	}
}

// voteOf tells what is known of a node's answer.
func voteOf(t *tally, node int) (granted, answered bool) {
	for _, v := range t.votes {
		if v.node == node {
			return v.granted(), v.err == nil
		}
	}
	return false, false
}
