package zklock

import (
	"math"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A line is the claims of one name in their order.
type line struct {
	path      string
	container int64  // the zxid that created it; 0: there is none
	version   int32  // of the container, raised by every claim that enters by a Multi
	creations uint32 // see creationsOf
	changes   int32  // of its children
	nodes     []node
}

// creationsOf is twice the number of children that a container ever had, in 32 bits: the
// version of its children is that number less the present one.
func creationsOf(container *zk.Stat) uint32 {
	return uint32(container.Cversion) + uint32(container.NumChildren)
}

// parseNames reads the names of the children.
func (n *line) parseNames(names []string) error {
	n.nodes = make([]node, 0, len(names)+1)
	for _, name := range names {
		x, ours, err := parseNode(name)
		if err != nil {
			return err
		}
		if ours {
			n.nodes = append(n.nodes, x)
		}
	}
	return nil
}

// maxSeq is the number from which sequence numbers are not trusted. Newer servers stop
// counting at the largest number and give it again and again, older ones continue with the
// smallest.
const maxSeq = math.MaxInt32 - 1<<16

// orderedBySeq reports whether the sequence numbers of the sorted nodes give their order.
func (n *line) orderedBySeq() bool {
	for i, x := range n.nodes {
		if x.seq < 0 || x.seq >= maxSeq || i > 0 && x.seq == n.nodes[i-1].seq {
			return false
		}
	}
	return true
}

// index returns the place of a node in the line, or -1.
func (n *line) index(name string) int {
	return slices.IndexFunc(n.nodes, func(x node) bool { return x.name == name })
}

// limitConflicts reports whether the claim at place i must be refused: the first shared
// claim of a line sets the limit of those behind it. A claim that was refused itself, and is
// not gone yet, does not count.
func (n *line) limitConflicts(i int) bool {
	if n.nodes[i].claim().Exclusive() {
		return false
	}
	for _, x := range n.nodes[:i] {
		if !x.claim().Exclusive() {
			return x.limit != n.nodes[i].limit
		}
	}
	return false
}

// A placement says how one claim of a line stands, and what to watch while it waits.
type placement struct {
	held          bool
	ahead         int
	blockers      []node // one of them must go before the claim can hold
	adjacent      bool   // the only blocker is right ahead, and exclusive
	group         bool   // no single claim blocks, but all blockers together
	wholeLine     bool   // there are too many blockers: watch the line instead
	spare         []node // of a group: claims further ahead, the nearest first
	spareComplete bool   // spare has all of them
}

// maxWatches is how many nodes a claim watches before it watches the whole line.
const maxWatches = 128

// place asks driver.Place about the claim at place i. A shared claim of another limit ahead
// of it, which was refused and is about to go, blocks it as a whole.
func (n *line) place(i int) placement {
	own := n.nodes[i].claim()
	entries := make([]driver.Entry, i+1)
	for j, x := range n.nodes[:i+1] {
		entries[j].Claim = x.claim()
		entries[j].ID = x.name // unique, as an ID here need not be
		if c := &entries[j].Claim; !own.Exclusive() && !c.Exclusive() && c.Limit != own.Limit {
			c.Need, c.Limit = driver.All, driver.All
		}
	}
	held, ahead, blocker, _ := driver.Place(entries, n.nodes[i].name)
	p := placement{held: held, ahead: ahead}
	switch {
	case held:
	case blocker != "":
		p.blockers = []node{n.nodes[n.index(blocker)]}
		p.adjacent = blocker == n.nodes[i-1].name && n.nodes[i-1].claim().Exclusive()
	default:
		n.findGroup(i, &p)
	}
	return p
}

// findGroup finds what the claim at place i must watch where only several claims together
// block it: as many of the nearest as leave it no room. While they all stand it cannot hold,
// whatever becomes of those further ahead; and they are the last to go.
func (n *line) findGroup(i int, p *placement) {
	used, limit := int64(n.nodes[i].need), int64(n.nodes[i].limit)
	j := i
	for j > 0 && used <= limit {
		j--
		used += int64(n.nodes[j].need)
		p.blockers = append(p.blockers, n.nodes[j])
	}
	further := n.nodes[max(0, j-maxWatches):j]
	p.spare = slices.Clone(further)
	slices.Reverse(p.spare)
	p.group, p.spareComplete, p.wholeLine = true, len(further) == j, len(p.blockers) > maxWatches
}
