package quorum

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

func TestANodeThatIsWatchedAgainIsNotCountedTwice(t *testing.T) {
	set := &nodes.Set{Nodes: make([]nodes.Node, 3), Majority: 2}
	w := newWatches(set, nil).start("name")
	ready := func() bool {
		select {
		case <-w.ready:
			return true
		default:
			return false
		}
	}
	for range 5 {
		w.setWatched(0, true)
		w.setWatched(0, false)
	}
	if ready() {
		t.Error("one node of three was watched five times, and that counts as a majority")
	}
	w.setWatched(0, true)
	w.setWatched(1, true)
	if !ready() {
		t.Error("two nodes of three are watched, and that is no majority")
	}
}

// Of five nodes a majority has granted in the new epoch, two of them the same token. A
// third that granted the token in the old epoch does not count.
func TestATokenIsNotAgreedOnAcrossEpochs(t *testing.T) {
	grant := func(node int, token, epoch uint64) vote {
		return vote{node: node, st: driver.Standing{Held: true, Token: token, Epoch: epoch}}
	}
	vs := votes{nodes: 5, majority: 3, all: []vote{grant(0, 7, 1), grant(1, 7, 2), grant(2, 9, 2), grant(3, 7, 2)}}
	if !vs.won() {
		t.Error("a majority of one epoch has not won")
	}
	if token, agreed := vs.token(); agreed || token != 9 {
		t.Errorf("token %d, agreed %t: it has to be the highest, and confirmed", token, agreed)
	}
	vs.all = vs.all[:3]
	if vs.won() {
		t.Error("a majority across epochs has won")
	}
}

func TestAHoldIsListedForAsLongAsAMajorityHasIt(t *testing.T) {
	at := func(left time.Duration) driver.Entry {
		return driver.Entry{Claim: driver.Claim{ID: "aa", Try: 1, Name: "name"}, Held: true, Fence: 1, Left: left}
	}
	for _, group := range [][]driver.Entry{{at(9), at(1), at(5)}, {at(9), at(5)}} {
		if got := combine(group, 2).Left; got != 5 {
			t.Errorf("of %d nodes that have it the second last forgets it after 5, and it is listed for %d more", len(group), got)
		}
	}
}
