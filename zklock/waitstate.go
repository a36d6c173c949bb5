package zklock

import (
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A waitState is what a waiting claim has seen, and the watches that tell it when to read
// its line again. Claims ahead of it can only become fewer, so a waitState stays true until
// one of the watches fires.
type waitState struct {
	evictWatch *zkstore.Watch
	blockers   []*zkstore.Watch
	sole       bool          // the only blocker is the only claim ahead
	adjacent   bool          // the only blocker is right ahead, and exclusive
	group      *blockerGroup // of the blockers, where only all of them together block; nil: it is one, or the line
}

// A blockerGroup is the claims that block another only together. The nearest ahead are
// watched, as many as leave no room. When one of them goes, the next further ahead takes
// its place, and the line is not read again: of many that wait for the same, each would
// read all of it at every departure.
type blockerGroup struct {
	path          string
	nodes         []node // that the watches are on, in their order
	spare         []node // further ahead, the nearest first
	spareComplete bool   // spare has all of them
}

// used drops the watches on nodes that have gone, and returns how much the others need.
// told is false where a watch has fired for another reason, or the evict watch has. That
// one is looked at last: events arrive in the order of their causes, so an eviction before
// one of the departures shows.
func (w *waitState) used() (used int64, told bool) {
	g := w.group
	for i := len(w.blockers) - 1; i >= 0; i-- {
		switch watch := w.blockers[i]; {
		case !watch.HasFired():
			used += int64(g.nodes[i].need)
		case watch.Cause() == zk.EventNodeDeleted:
			w.blockers, g.nodes = slices.Delete(w.blockers, i, i+1), slices.Delete(g.nodes, i, i+1)
		default:
			return 0, false
		}
	}
	return used, !w.evictWatch.HasFired()
}

// setWaiting gives a claim its waitState, and returns its standing.
func (s *session) setWaiting(cs *claimState, w *waitState, ahead int) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs.waiting, cs.ahead, cs.hasWaited = w, ahead, true
	st := driver.Standing{Ahead: ahead, Pause: s.pause()}
	if w.sole && w.group == nil {
		if d, ok := parseData(w.blockers[0].Data); ok {
			st.Holder = holderEntry(cs.claim.Name, d, w.blockers[0].Stat)
		}
	}
	return st
}

// clearWaiting has a claim read its line.
func (s *session) clearWaiting(cs *claimState, w *waitState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs.waiting == w {
		cs.waiting = nil
	}
}

// holderEntry shows the claim at the head of a line, which holds.
func holderEntry(name string, d nodeData, stat *zk.Stat) *driver.Entry {
	e := driver.Entry{Claim: d.Claim, Session: d.session, Held: true, Fence: uint64(stat.Czxid)}
	e.Name = name
	return &e
}
