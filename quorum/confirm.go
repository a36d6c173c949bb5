package quorum

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// confirmTries is how many tokens a reader tries to have confirmed.
const confirmTries = 4

// chooseToken returns the token of a claim that has won, after the nodes confirmed it
// where they had not granted the same one. It reports false if they did not confirm.
func (b *ballot) chooseToken(ctx context.Context) (uint64, bool, error) {
	s, cs := b.s, b.cs
	if cs.token != 0 {
		held, err := b.stillHeld(ctx)
		if held || err != nil {
			return cs.token, held, err
		}
	}
	token, agreed := b.token()
	if agreed {
		return token, true, nil
	}
	s.e.secondRounds.Add(1)
	for range confirmTries {
		s.mu.Lock()
		cs.confirming = append(cs.confirming, token)
		s.mu.Unlock()
		ok, err := b.confirm(ctx, token)
		if ok || err != nil || cs.claim.Exclusive() {
			return token, ok, err
		}
		// A node has a mark that is not below the token, from another reader or another
		// name. A token slightly ahead of the clocks is above all marks.
		token = max(token, s.e.proposer.propose()) + 1 + jitter.Uint64N(1000)
	}
	return 0, false, nil
}

// stillHeld reports whether a claim that was held before has been held ever since: a
// majority then repeats the grant it gave, and the token stays.
func (b *ballot) stillHeld(ctx context.Context) (bool, error) {
	patience := time.NewTicker(nodes.StragglerWait(b.s.ttl))
	defer patience.Stop()
	for {
		same := b.count(func(v vote) bool { return v.same })
		if same >= b.majority {
			return true, nil
		}
		if same+b.awaited() < b.majority {
			return false, nil
		}
		select {
		case v := <-b.arrived:
			b.all = append(b.all, v)
		case <-patience.C: // a node may be silent by now
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// confirm asks the nodes that granted to raise their mark to token, and reports
// whether a majority did. It also asks nodes whose grant arrives meanwhile, unless
// they granted a higher token or in another epoch.
func (b *ballot) confirm(ctx context.Context, token uint64) (bool, error) {
	epoch := b.epoch() // of the grants that won: a grant that arrives later may have a newer one
	answers := make(chan bool, b.nodes)
	asked, confirmed, denied := 0, 0, 0
	for _, v := range b.counting() {
		asked++
		if !b.confirmAt(v, token, answers) {
			return false, driver.ErrGone
		}
	}
	patience := time.NewTicker(nodes.StragglerWait(b.s.ttl))
	defer patience.Stop()
	for confirmed < b.majority {
		if asked-denied+b.awaited() < b.majority {
			return false, nil
		}
		select {
		case ok := <-answers:
			if ok {
				confirmed++
			} else {
				denied++
			}
		case v := <-b.arrived:
			b.all = append(b.all, v)
			if !v.granted() || v.st.Epoch != epoch || v.st.Token > token {
				continue
			}
			asked++
			if !b.confirmAt(v, token, answers) {
				return false, driver.ErrGone
			}
		case <-patience.C: // a node may be silent by now
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// confirmAt asks one node to confirm a token for its grant. It reports false if the
// session is closed.
func (b *ballot) confirmAt(v vote, token uint64, answers chan<- bool) bool {
	c, ok := b.cs.atNode(), false
	return b.s.nodes.Go(b.s.nodes.Round(1), v.node, func(ctx context.Context, at *nodes.Session) (err error) {
		ok, err = at.Voter.Confirm(ctx, c, v.st.Token, token)
		return at.Check(err)
	}, func(err error) { answers <- ok && err == nil })
}
