package quorum

import (
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// A vote is one node's answer to Enter.
type vote struct {
	node int
	st   driver.Standing
	err  error
	same bool // it granted, as it had the time before
}

func (v vote) granted() bool { return v.err == nil && v.st.Held }

// A tally counts the votes on one claim as they come in.
type tally struct {
	nodes, majority int
	votes           []vote
	givenUp         bool // others are in the way of those who have answered, and the rest are not waited for
}

// epoch returns the newest epoch in which a node has granted.
func (t *tally) epoch() (newest uint64) {
	for _, v := range t.votes {
		if v.granted() {
			newest = max(newest, v.st.Epoch)
		}
	}
	return newest
}

// grants returns the grants of the newest epoch: others are never combined with them.
func (t *tally) grants() (in []vote) {
	epoch := t.epoch()
	for _, v := range t.votes {
		if v.granted() && v.st.Epoch == epoch {
			in = append(in, v)
		}
	}
	return in
}

// granting counts them.
func (t *tally) granting() (n int) {
	epoch := t.epoch()
	for _, v := range t.votes {
		if v.granted() && v.st.Epoch == epoch {
			n++
		}
	}
	return n
}

// won reports whether a majority has granted.
func (t *tally) won() bool { return t.granting() >= t.majority }

// lost reports whether no majority can come together any more.
func (t *tally) lost() bool {
	return t.granting()+t.nodes-len(t.votes) < t.majority
}

// refused reports whether others are in the way, not nodes that do not answer:
// so many refuse that no majority can come together, or a majority has answered.
func (t *tally) refused() bool {
	return t.givenUp || t.lost() && (t.refusals() > t.nodes-t.majority || t.answered() >= t.majority)
}

// answered counts the nodes that did not fail.
func (t *tally) answered() (n int) {
	for _, v := range t.votes {
		if v.err == nil {
			n++
		}
	}
	return n
}

// heard reports whether a node has voted.
func (t *tally) heard(node int) bool {
	return slices.ContainsFunc(t.votes, func(v vote) bool { return v.node == node })
}

// refusals counts the nodes that refuse.
func (t *tally) refusals() (n int) {
	for _, v := range t.votes {
		if v.err == nil && !v.st.Held {
			n++
		}
	}
	return n
}

// token returns the token of a claim that has won. It is agreed when a majority
// granted this very value; otherwise it has to be confirmed.
func token(grants []vote, majority int) (token uint64, agreed bool) {
	count := map[uint64]int{}
	for _, v := range grants {
		if count[v.st.Token]++; count[v.st.Token] >= majority {
			return v.st.Token, true
		}
		token = max(token, v.st.Token)
	}
	return token, false
}

// refusal is the standing of a claim that somebody else is in the way of.
func (t *tally) refusal() driver.Standing {
	st := driver.Standing{Ahead: -1}
	for _, v := range t.votes {
		if v.err != nil || v.st.Held {
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
