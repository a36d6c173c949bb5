package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// A turn is a claim that waits. Rivals that ask all nodes at once take nodes from each
// other, and mostly none gets a majority. So a waiter first enters the line of one node, the
// first of the name's circle that answers: the same for all clients. When that node lets it
// in, it enters the lines of the others, where only claims are in the way that are being
// given back, or that did not wait.
//
// The line only says when to ask. A vote is what a node answers to Enter, as in any ballot,
// and a majority of them decides. A client that holds the node, and not the name, may have
// died: after a while the process uses the next node's line, for a TTL.
// A waiter that gets no turn, or no majority, leaves all nodes and enters again.
type turn struct {
	s     *session
	cs    *claimState
	claim driver.Claim  // as it is sent to the nodes
	epoch uint64        // of the node in whose line it is, when it came there
	took  time.Duration // the answer of the node in whose line it is
}

// askOne enters the claim at a node and waits for the answer, but not for a node that is
// silent. One that answers others is waited for: while thousands come, some wait for long, and
// they would be in another line than the rest.
func (t *turn) askOne(ctx context.Context, i int, propose uint64) vote {
	votes := make(chan vote, 1)
	if !t.ask(ctx, i, propose, votes) {
		return vote{node: i, err: driver.ErrGone}
	}
	timer := time.NewTimer(nodes.StragglerWait(t.s.ttl))
	defer timer.Stop()
	for {
		select {
		case v := <-votes: // within the limit of a call
			return v
		case <-timer.C:
			if !t.s.nodes.Silent(i) {
				timer.Reset(nodes.StragglerWait(t.s.ttl) / 8)
				continue
			}
		case <-ctx.Done():
		}
		return vote{node: i, err: driver.ErrUnreachable}
	}
}

// ask enters the claim at a node, which sends its vote to votes. It reports false if ctx has
// ended, the session is closed or the claim was left.
func (t *turn) ask(ctx context.Context, i int, propose uint64, votes chan<- vote) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if ctx.Err() != nil || t.s.closed || t.cs.left {
		return false
	}
	c := t.claim
	c.Propose = propose
	t.s.enterLocked(t.s.nodes.Round(1), i, t.cs, c, votes)
	return true
}

// waitAt waits in a node's line until a moment, and reports whether the claim was let in.
func (t *turn) waitAt(ctx context.Context, at *vote, until time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		var st driver.Standing
		err := t.s.nodes.Wait(ctx, at.node, func(ctx context.Context, s *nodes.Session) (err error) {
			st, err = s.Await(ctx, t.claim, at.st)
			return err
		})
		switch {
		case err != nil, st.Gone:
			return false
		case st.Held:
			at.st.Held, at.st.Token = true, st.Token
			return true
		}
		at.st.Holder, at.st.Pause = st.Holder, st.Pause
	}
}

// holderOf returns the ID of the claim that is in the way at a node; "" if it is unknown.
func holderOf(st driver.Standing) string {
	if st.Holder == nil {
		return ""
	}
	return st.Holder.ID
}

// isHeld reports whether a majority holds the name for the claim that is in the way at a node.
// That node has just said so, and its line may be long: the others are asked, by one for all
// who wait in it.
func (t *turn) isHeld(ctx context.Context, host vote) bool {
	h := host.st.Holder
	if h == nil {
		return false
	}
	key := fmt.Sprint(host.node, " ", h.Held, " ", h.Try, " ", h.ID, " ", t.claim.Name)
	held, _ := t.s.e.held.Do(ctx, key, func(ctx context.Context) (bool, error) {
		return t.s.e.holds(ctx, t.claim.Name, host.node, *h), ctx.Err()
	})
	return held
}

// holds reports whether a majority holds a name for a claim, of which one node has said how it
// stands.
func (e *Engine) holds(ctx context.Context, name string, node int, claim driver.Entry) bool {
	at := e.set.Nodes[node]
	count := func(lines []NodeLine) (held, pending int) {
		for _, l := range lines {
			switch {
			case l.Node == at.Name && claim.Held, slices.ContainsFunc(l.Entries, func(x driver.Entry) bool { return x.Held && x.ID == claim.ID && x.Try == claim.Try }):
				held++
			case errors.Is(l.Err, nodes.ErrPending):
				pending++
			}
		}
		return held, pending
	}
	others := func(ctx context.Context, n driver.Engine) ([]driver.Entry, error) {
		if n == at.Engine {
			return nil, nil
		}
		return n.Line(ctx, name)
	}
	held, _ := count(e.ask(ctx, others, func(lines []NodeLine) bool {
		held, pending := count(lines)
		return held >= e.set.Majority || held+pending < e.set.Majority
	}))
	return held >= e.set.Majority
}

// anyHolder reports whether a majority holds the name for another claim. Without an answer
// there is no turn either.
func (t *turn) anyHolder(ctx context.Context) bool {
	line, _ := t.s.e.Line(ctx, t.claim.Name)
	return slices.ContainsFunc(line, func(x driver.Entry) bool { return x.ID != t.claim.ID })
}
