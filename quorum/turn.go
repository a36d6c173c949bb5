package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// minWait is the shortest time after which an Await without a turn returns.
const minWait = 10 * time.Millisecond

// lookEvery is how often a waiter looks whether the line it is in still moves, at the latest.
const lookEvery = time.Second

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
	s      *session
	cs     *claimState
	claim  driver.Claim // as it is sent to the nodes
	epochs []uint64     // by node: in which it came to wait there
}

// take returns the claim's token and until when it is held; 0: it is not held.
func (t *turn) take(ctx context.Context) (token uint64, until time.Time) {
	host, in := t.join(ctx)
	if !in || !t.wait(ctx, &host) {
		return 0, time.Time{}
	}
	return t.win(ctx, host.st.Token)
}

// join enters the line of the first node of the circle that answers in time.
func (t *turn) join(ctx context.Context) (host vote, in bool) {
	circle := t.s.e.circle(t.claim.Name)
	usable := slices.DeleteFunc(slices.Clone(circle), func(i int) bool {
		return t.s.nodes.Silent(i) || t.s.e.stalled.is(t.claim.Name, i)
	})
	if len(usable) == 0 {
		usable = circle
	}
	for _, i := range usable {
		if host = t.askOne(ctx, i, t.s.e.proposer.propose()); host.granted() || host.waits() {
			t.waitsIn(host)
			return host, true
		}
	}
	return vote{}, false
}

// askOne enters the claim at a node and waits for the answer, but not for a straggler.
func (t *turn) askOne(ctx context.Context, i int, propose uint64) vote {
	votes := make(chan vote, 1)
	if ctx.Err() != nil || !t.ask(i, propose, votes) {
		return vote{node: i, err: driver.ErrGone}
	}
	timer := time.NewTimer(nodes.StragglerWait(t.s.ttl))
	defer timer.Stop()
	select {
	case v := <-votes:
		return v
	case <-timer.C:
	case <-ctx.Done():
	}
	return vote{node: i, err: driver.ErrUnreachable}
}

// ask enters the claim at a node, which sends its vote to votes. It reports false if the
// session is closed or the claim was left.
func (t *turn) ask(i int, propose uint64, votes chan<- vote) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.s.closed || t.cs.left {
		return false
	}
	c := t.claim
	c.Propose = propose
	t.s.enterLocked(t.s.nodes.Round(1), i, t.cs, c, votes)
	return true
}

// wait returns true when the node whose line the claim is in lets it in.
func (t *turn) wait(ctx context.Context, host *vote) bool {
	for !host.granted() {
		holder, look := holderOf(host.st), time.Now().Add(min(t.s.ttl/3, lookEvery))
		if t.waitAt(ctx, host, look) {
			return true
		}
		if ctx.Err() != nil || time.Now().Before(look) {
			return false
		}
		*host = t.askOne(ctx, host.node, 0) // which prolongs its place
		switch {
		case host.granted():
		case !host.waits():
			return false
		case holderOf(host.st) == holder && !slices.Contains(t.holders(ctx), holder):
			t.s.e.stalled.add(t.claim.Name, host.node, time.Now().Add(t.s.ttl))
			return false
		}
	}
	return true
}

// waitsIn notes the epoch in which the claim came to wait at a node.
func (t *turn) waitsIn(v vote) {
	if v.waits() {
		t.epochs[v.node] = v.st.Epoch
	}
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

// holders returns the IDs of the other claims for which a majority holds the name.
func (t *turn) holders(ctx context.Context) (ids []string) {
	line, _ := t.s.e.Line(ctx, t.claim.Name) // without an answer there is no turn either
	for _, x := range line {
		if x.ID != t.claim.ID {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

// win asks all nodes for the token that the first one let the claim in with.
func (t *turn) win(ctx context.Context, propose uint64) (token uint64, until time.Time) {
	b := &ballot{s: t.s, cs: t.cs, claim: t.claim, arrived: make(chan vote, len(t.epochs))}
	b.votes = votes{nodes: len(t.epochs), majority: t.s.e.set.Majority}
	end := time.Now().Add(t.s.ttl / 3)
	for i := range t.epochs {
		go t.seek(i, propose, end, b.arrived) // ends soon after the claim is left, or at the end
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	patience := nodes.StragglerWait(t.s.ttl)
	timer := time.NewTimer(patience + jitter.N(patience))
	defer timer.Stop()
	for !b.won() {
		select {
		case v := <-b.arrived:
			b.all = append(b.all, v)
			t.s.e.proposer.learn(v.st.Token)
		case <-timer.C:
			if len(t.holders(ctx)) == 0 { // rivals that came in by other nodes' lines wait for each other
				return 0, time.Time{}
			}
			timer.Reset(patience)
		case <-ctx.Done():
			return 0, time.Time{}
		}
		if b.lost() {
			return 0, time.Time{}
		}
	}
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

// seek sends a node's vote. Where another claim is in the way it waits in line until it is
// let in, and asks again.
func (t *turn) seek(i int, propose uint64, end time.Time, to chan<- vote) {
	votes := make(chan vote, 1)
	for {
		if !t.ask(i, propose, votes) {
			to <- vote{node: i, err: driver.ErrGone}
			return
		}
		v := <-votes // within the limit of a call
		if epoch := t.epochs[i]; v.granted() && epoch != 0 && epoch != v.st.Epoch {
			v.err = driver.ErrNoVote // it was let in in an earlier epoch, or in this one: nobody knows
		}
		if !v.waits() {
			to <- v
			return
		}
		t.waitsIn(v)
		if !t.waitAt(context.Background(), &v, end) {
			to <- vote{node: i, err: driver.ErrUnreachable}
			return
		}
	}
}
