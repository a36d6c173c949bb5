package quorum

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A vote is one node's answer to Enter.
type vote struct {
	node int
	st   driver.Standing
	err  error
	same bool      // the node granted with the same token as the last time
	sent time.Time // when this was asked
}

func (v vote) granted() bool { return v.err == nil && v.st.Held }
func (v vote) refused() bool { return v.err == nil && !v.st.Held }

// waits reports whether the claim is in the node's line.
func (v vote) waits() bool { return v.refused() && v.st.Valid > 0 }

// votes is the answers to one Enter that have arrived.
type votes struct {
	nodes, majority int
	all             []vote
	gaveUp          bool // rivals hold the name at some nodes, and the others are no longer waited for
}

// count returns how many votes satisfy is.
func (vs *votes) count(is func(vote) bool) (n int) {
	for _, v := range vs.all {
		if is(v) {
			n++
		}
	}
	return n
}

// answered counts the nodes that did not fail.
func (vs *votes) answered() int { return vs.count(func(v vote) bool { return v.err == nil }) }

// refusals counts the nodes at which a rival holds the name.
func (vs *votes) refusals() int { return vs.count(vote.refused) }

// grants counts the grants of the newest epoch.
func (vs *votes) grants() int { return vs.count(vs.inEpoch(vs.epoch())) }

// epoch returns the newest epoch in which a node has granted.
func (vs *votes) epoch() (newest uint64) {
	for _, v := range vs.all {
		if v.granted() {
			newest = max(newest, v.st.Epoch)
		}
	}
	return newest
}

func (vs *votes) inEpoch(epoch uint64) func(vote) bool {
	return func(v vote) bool { return v.granted() && v.st.Epoch == epoch }
}

// counting returns the grants of the newest epoch: grants of different epochs are
// never combined.
func (vs *votes) counting() (grants []vote) {
	counts := vs.inEpoch(vs.epoch())
	for _, v := range vs.all {
		if counts(v) {
			grants = append(grants, v)
		}
	}
	return grants
}

// of returns a node's vote.
func (vs *votes) of(node int) (v vote, voted bool) {
	i := slices.IndexFunc(vs.all, func(v vote) bool { return v.node == node })
	if i < 0 {
		return vote{}, false
	}
	return vs.all[i], true
}

// pending counts the nodes that have not voted.
func (vs *votes) pending() int { return vs.nodes - len(vs.all) }

// won reports whether a majority has granted.
func (vs *votes) won() bool { return vs.grants() >= vs.majority }

// lost reports whether no majority can grant any more.
func (vs *votes) lost() bool { return vs.grants()+vs.pending() < vs.majority }

// refused reports whether the claim is lost to rivals and not to nodes that failed:
// enough nodes refuse that no majority can grant, or a majority has answered.
func (vs *votes) refused() bool {
	return vs.gaveUp || vs.lost() && (vs.refusals() > vs.nodes-vs.majority || vs.answered() >= vs.majority)
}

// split reports whether a claim that lost was not lost to a holder: nodes granted in
// different epochs, or there are rivals and none of them can hold the name. Each is
// exclusive, and has no majority even with the nodes that have not answered.
func (vs *votes) split() bool {
	others, at := vs.nodes-vs.answered(), map[string]int{}
	for _, v := range vs.all {
		if !v.refused() {
			continue
		}
		h := v.st.Holder
		if h == nil || !h.Exclusive() {
			return false
		}
		if at[h.ID]++; at[h.ID]+others >= vs.majority {
			return false
		}
	}
	return len(at) > 0 || vs.count(vote.granted) > vs.grants()
}

// decided reports whether further votes change nothing.
func (vs *votes) decided() bool { return vs.won() || vs.refused() || vs.pending() == 0 }

// token returns the token of a claim that has won. It is agreed if a majority granted
// this very token; otherwise it has to be confirmed.
func (vs *votes) token() (token uint64, agreed bool) {
	count := map[uint64]int{}
	for _, v := range vs.counting() {
		if count[v.st.Token]++; count[v.st.Token] >= vs.majority {
			return v.st.Token, true
		}
		token = max(token, v.st.Token)
	}
	return token, false
}

// refusal returns the standing of a claim that was refused.
func (vs *votes) refusal() driver.Standing {
	st := driver.Standing{Ahead: -1}
	for _, v := range vs.all {
		if !v.refused() {
			continue
		}
		if st.Holder == nil {
			st.Holder = v.st.Holder
		}
		if p := v.st.Pause; p > 0 && (st.Pause == 0 || p < st.Pause) {
			st.Pause = p
		}
	}
	return st
}
