package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// restDelay is how long only a majority of the nodes is asked. The rest are asked
// after it, or when all of the majority have answered and the outcome is open. So a
// claim that is held for longer is at every node, a claim that is given back at once
// cost no more nodes than it needed, and a claim that is refused was not granted at
// the nodes that the holder is about to ask.
const restDelay = nodes.LateAfter

// A ballot asks the nodes to vote on one claim.
type ballot struct {
	votes
	s       *session
	cs      *claimState
	claim   driver.Claim
	arrived chan vote // receives one vote of every node; has room for all
	first   []int
	rest    []int       // not asked yet; guarded by s.mu once a timer may ask them
	asked   int         // nodes
	timer   *time.Timer // asks the rest for a claim that has won
}

// runBallot asks the nodes and returns when the claim has won or lost.
func (s *session) runBallot(ctx context.Context, cs *claimState) (*ballot, error) {
	n := len(s.e.set.Nodes)
	b := &ballot{s: s, cs: cs, claim: cs.atNode(), arrived: make(chan vote, n)}
	b.votes = votes{nodes: n, majority: s.e.set.Majority, all: make([]vote, 0, n)}
	b.claim.Propose = s.e.proposer.propose()
	if !b.askFirst() {
		return nil, driver.ErrGone
	}
	if err := b.collect(ctx); err != nil {
		return nil, err
	}
	for _, v := range b.all {
		s.e.proposer.learn(v.st.Token)
	}
	if b.won() {
		b.askRestLater()
	}
	return b, nil
}

// askFirst asks a majority. It reports false if the session is closed.
func (b *ballot) askFirst() bool {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.s.closed {
		return false
	}
	b.first, b.rest = b.s.split(b.claim.Name)
	b.askLocked(b.first)
	return true
}

// collect takes votes until they decide, and asks the rest where the first do not.
func (b *ballot) collect(ctx context.Context) error {
	timer, overdue := time.NewTimer(restDelay), false
	defer timer.Stop()
	for !b.decided() {
		select {
		case v := <-b.arrived:
			b.all = append(b.all, v)
			if len(b.all) == len(b.first) && !b.decided() {
				b.askRest()
			}
			b.gaveUp = b.onlySilentLeft()
		case <-timer.C:
			switch {
			case !overdue:
				overdue = true
				b.handleLate()
			case b.stuck():
				b.gaveUp = true
			default:
				b.askRest() // they were left to a rival, which has had the time to ask them
			}
			timer.Reset(nodes.StragglerWait(b.s.ttl))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handleLate marks the nodes that have not answered as late and asks the rest. It does
// not if a rival holds the name at a node and the rest would not suffice: the rival is
// about to ask them too, and should win there.
func (b *ballot) handleLate() {
	for _, i := range b.first {
		if _, voted := b.of(i); !voted {
			b.s.nodes.SetLate(i)
		}
	}
	if b.refusals() == 0 || b.grants()+len(b.rest) >= b.majority {
		b.askRest()
	}
}

// stuck reports whether a rival holds the name at a node and most nodes have answered.
// Two rivals that each hold nodes the other needs would otherwise both wait for a
// node that does not answer until their calls to it time out.
func (b *ballot) stuck() bool { return b.refusals() > 0 && 2*b.answered() > b.asked }

// onlySilentLeft reports whether a rival holds the name at a node and all nodes that
// have not voted are silent: they are not waited for again.
func (b *ballot) onlySilentLeft() bool {
	if b.refusals() == 0 || b.answered() < b.majority || len(b.rest) > 0 || b.pending() == 0 {
		return false
	}
	return b.awaited() == 0
}

// awaited counts the nodes that have not voted and are not silent.
func (b *ballot) awaited() (n int) {
	if b.pending() == 0 {
		return 0 // nor may the others be asked
	}
	for i := range b.nodes {
		if _, voted := b.of(i); !voted && !b.s.nodes.Silent(i) {
			n++
		}
	}
	return n
}

// askRest asks the nodes that were not asked first, once.
func (b *ballot) askRest() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.askRestLocked()
}

// askRestLocked does not ask for a claim that was left: its Enter may still wait for
// these votes, and gets an error in their place.
func (b *ballot) askRestLocked() {
	rest := b.rest
	b.rest = nil
	if b.cs.rest == canceler(b) {
		b.cs.rest = nil
	}
	switch {
	case len(rest) == 0:
	case b.s.closed, b.cs.left:
		for _, i := range rest {
			b.arrived <- vote{node: i, err: driver.ErrGone}
		}
	default:
		b.askLocked(rest)
	}
}

// askRestLater asks the rest after restDelay, unless the claim was left by then.
func (b *ballot) askRestLater() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if len(b.rest) == 0 {
		return
	}
	if b.cs.left {
		b.askRestLocked()
		return
	}
	b.cs.rest, b.timer = b, time.AfterFunc(restDelay, b.askRest)
}

// cancelLocked ends the ballot of a claim that was left. A timer that has fired
// already finds no node to ask.
func (b *ballot) cancelLocked() {
	b.timer.Stop()
	b.askRestLocked()
}

func (b *ballot) askLocked(indexes []int) {
	r := b.s.nodes.Round(len(indexes))
	for _, i := range indexes {
		b.s.enterLocked(r, i, b.cs, b.claim, b.arrived)
	}
	b.asked += len(indexes)
}

// split divides the nodes into a majority to ask first and the rest. The majority is
// the same for all clients of a name while its nodes answer in time. Where fewer nodes
// than a majority do, all are asked first.
func (s *session) split(name string) (first, rest []int) {
	order := make([]int, 0, len(s.e.byName))
	var late []int
	for _, i := range s.e.circle(name) {
		if s.nodes.Late(i) {
			late = append(late, i)
		} else {
			order = append(order, i)
		}
	}
	prompt := len(order)
	order = append(order, late...)
	if prompt < s.e.set.Majority {
		return order, nil
	}
	return order[:s.e.set.Majority], order[s.e.set.Majority:]
}

// circle returns the nodes in the order of a name, which is the same for all clients.
func (e *Engine) circle(name string) []int {
	start := startNode(name, len(e.byName))
	return slices.Concat(e.byName[start:], e.byName[:start])
}

// startNode returns where a name begins in a circle of n nodes, by its FNV-1a hash.
func startNode(name string, n int) int {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return int(h % uint32(n))
}
