package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// A pursuit collects votes for a claim that one node has let in: it is in line at every
// node.
//
// Clients may disagree on the name's first node. So that no two of them wait for each
// other, a claim that has to wait at a node for longer gives back those behind it in the
// circle, until that node lets it in.
type pursuit struct {
	*turn
	order   []int // the nodes of the circle from the first one on that let it in
	propose uint64
	end     time.Time
	answers chan pursued
	done    chan struct{} // closed when nobody takes answers any more
	nodes   []pursuedNode
}

// A pursuedNode is how the claim stands at one node.
type pursuedNode struct {
	round     int  // how often it was asked or left: answers of earlier rounds are void
	waits     bool // in its line
	givenBack bool
	voted     bool
	vote      vote
	stop      context.CancelFunc // ends the wait of this round
	stopped   chan struct{}      // closed when no call of this round is under way; nil: it was not asked
}

// A pursued is a node's answer: its vote, or that the claim waits there.
type pursued struct {
	vote
	round int
}

// win asks all nodes for the token that the first one let the claim in with.
func (t *turn) win(ctx context.Context, host vote) (token uint64, until time.Time) {
	p := &pursuit{turn: t, propose: host.st.Token, end: time.Now().Add(t.s.ttl / 3), answers: make(chan pursued),
		done: make(chan struct{}), nodes: make([]pursuedNode, len(t.s.e.set.Nodes))}
	defer close(p.done)
	circle := t.s.e.circle(t.claim.Name)
	p.order = circle[slices.Index(circle, host.node):]
	for i := range p.nodes {
		p.ask(i)
	}
	b := &ballot{s: t.s, cs: t.cs, claim: t.claim}
	ctx, cancel := context.WithDeadline(ctx, p.end)
	defer cancel()
	if !p.collect(ctx, b) {
		return 0, time.Time{}
	}
	for i := range p.nodes {
		if p.nodes[i].givenBack { // the hold is to be at every node
			p.ask(i)
		}
	}
	b.nodes = len(b.all) // these votes decide
	token, ok, err := b.chooseToken(ctx)
	if !ok || err != nil {
		return 0, time.Time{}
	}
	sent := time.Now()
	for _, v := range b.counting() {
		if v.sent.Before(sent) {
			sent = v.sent
		}
	}
	return token, sent.Add(t.s.ttl)
}

// collect takes answers until a majority has granted.
func (p *pursuit) collect(ctx context.Context, b *ballot) bool {
	patience := nodes.StragglerWait(p.s.ttl)
	short := min(patience, 2*time.Millisecond+4*p.took) // what is in the way is mostly being given back
	yield, rivals := time.NewTimer(short), time.NewTimer(patience+jitter.N(patience))
	defer yield.Stop()
	defer rivals.Stop()
	for {
		b.votes = p.votes()
		switch {
		case b.won():
			return true
		case b.lost():
			return false
		}
		select {
		case a := <-p.answers:
			p.take(a)
		case <-yield.C:
			p.giveBack()
			yield.Reset(short)
		case <-rivals.C:
			if !p.anyHolder(ctx) { // those who did not wait may be in each other's way
				return false
			}
			rivals.Reset(patience)
		case <-ctx.Done():
			return false
		}
	}
}

// votes returns the votes that have arrived and count.
func (p *pursuit) votes() votes {
	vs := votes{nodes: len(p.nodes), majority: p.s.e.set.Majority}
	for _, at := range p.nodes {
		if at.voted {
			vs.all = append(vs.all, at.vote)
		}
	}
	return vs
}

// take takes in an answer. Where the claim was let in it asks again those that it gave
// back for that.
func (p *pursuit) take(a pursued) {
	at := &p.nodes[a.node]
	if a.round != at.round {
		return
	}
	at.waits, at.voted, at.vote = a.waits(), !a.waits(), a.vote
	if !a.granted() {
		return
	}
	p.s.e.proposer.learn(a.st.Token)
	for _, i := range p.order {
		if p.nodes[i].waits {
			return
		}
		if p.nodes[i].givenBack {
			p.ask(i)
		}
	}
}

// giveBack leaves the nodes behind the first one at which the claim waits.
func (p *pursuit) giveBack() {
	for k, i := range p.order {
		if !p.nodes[i].waits {
			continue
		}
		for _, behind := range p.order[k+1:] {
			if at := &p.nodes[behind]; !at.givenBack && (!at.voted || at.vote.granted()) {
				at.stop()
				*at = pursuedNode{round: at.round + 1, givenBack: true, stopped: at.stopped}
				p.s.leaveNode(p.cs, behind)
			}
		}
		return
	}
}

// ask asks a node on another goroutine, which ends soon after the claim is left, or at the
// end. What it was asked before has to end first: one call waits for a claim at a time.
func (p *pursuit) ask(i int) {
	at := &p.nodes[i]
	before := at.stopped
	ctx, cancel := context.WithDeadline(context.Background(), p.end)
	*at = pursuedNode{round: at.round + 1, stop: cancel, stopped: make(chan struct{})}
	round, stopped := at.round, at.stopped
	go func() {
		defer cancel()
		defer close(stopped)
		if before != nil {
			<-before
		}
		p.seek(ctx, i, round)
	}()
}

// seek delivers a node's vote. Where another claim is in the way it waits in line until it
// is let in, and asks again.
func (p *pursuit) seek(ctx context.Context, i, round int) {
	votes, epoch := make(chan vote, 1), uint64(0) // in which it came to wait there
	if i == p.order[0] {
		epoch = p.epoch
	}
	for {
		v := vote{node: i, err: driver.ErrGone}
		if p.turn.ask(ctx, i, p.propose, votes) {
			v = <-votes // within the limit of a call
		}
		if v.granted() && epoch != 0 && epoch != v.st.Epoch {
			v.err = driver.ErrNoVote // it was let in in an earlier epoch, or in this one: nobody knows
		}
		select {
		case p.answers <- pursued{v, round}:
		case <-p.done:
		}
		if !v.waits() {
			return
		}
		epoch = v.st.Epoch
		if !p.waitAt(ctx, &v, p.end) {
			return
		}
	}
}
