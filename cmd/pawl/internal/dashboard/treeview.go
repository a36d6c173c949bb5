package dashboard

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// How much of the tree one page shows.
const (
	maxNodes = 500
	maxDepth = 12
	maxRings = 20
	maxRing  = 16 // sessions of one drawing
	maxHolds = 5  // names beside a root
)

// treeBody is the page of who blocks whom.
type treeBody struct {
	Roots []treeNode
	Rings []ring
	Cut   bool // there is more than is shown
}

// A treeNode is a session, or below a session a claim that waits for it.
type treeNode struct {
	Key      string
	Session  string // for links and data-session
	Who      string
	Reason   string
	Holds    []claimRow // of a root: what others wait for
	More     int        // further ones
	Wait     *claimRow  // of the others: what it waits for
	Behind   int        // claims that wait below it
	Children []treeNode
}

// A ring is a suspected cycle.
type ring struct {
	Key    string
	Steps  []ringStep
	Hidden int // further steps, which are not drawn
	Size   int // sessions that wait for each other, also those that are not drawn
	Below  []treeNode
}

// A ringStep is one session of a ring and the next one, which it waits for.
type ringStep struct {
	Number, Next       int
	Session            string
	Who                string
	Wait               claimRow
	X, Y               string // of its circle
	Arrow              string // to the next, as a path
	NameX, NameY, Name string
}

func buildTree(_ *Dashboard, s *state, now time.Time, _ url.Values) content {
	c := content{Template: "tree", Title: "Who blocks whom", Status: http.StatusOK}
	b := treeBody{}
	if s.snap != nil {
		t := &treeBuilder{g: s.snap.blocking(), clock: s.clock(now), left: maxNodes, names: map[string]bool{}}
		b.Cut = t.g.cut
		cycles := t.g.cycles()
		for _, cycle := range cycles[:min(maxRings, len(cycles))] {
			b.Rings = append(b.Rings, t.ring(cycle))
		}
		for _, session := range t.g.roots() {
			if t.left <= 0 {
				t.cut = true
				break
			}
			b.Roots = append(b.Roots, t.root(session))
		}
		b.Cut = b.Cut || t.cut || len(cycles) > maxRings
		c.names = t.order
	}
	c.Body = b
	return c
}

// A treeBuilder makes the nodes of one page.
type treeBuilder struct {
	g     *graph
	clock time.Time
	left  int // nodes that may still be made
	cut   bool
	names map[string]bool
	order []string // the first names that are shown
}

func (t *treeBuilder) root(session string) treeNode {
	t.left--
	n := treeNode{Key: text(session), Session: session}
	seen := map[place]bool{}
	for _, e := range t.g.blocks[session] {
		if seen[e.blocker] {
			continue
		}
		if seen[e.blocker] = true; len(n.Holds) < maxHolds {
			n.Holds = append(n.Holds, newClaimRow(e.blocker, t.clock).brief())
		} else {
			n.More++
		}
	}
	n.Who, n.Reason = n.Holds[0].Who, n.Holds[0].Reason
	n.Children = t.children(session, []string{session}, 1)
	n.Behind = behind(n.Children)
	return n
}

// children returns the claims that wait for session. above has the sessions that are
// not shown again: session, and those above it.
func (t *treeBuilder) children(session string, above []string, depth int) (nodes []treeNode) {
	for _, e := range t.g.blocks[session] {
		from := e.from()
		if slices.Contains(above, from) {
			continue // part of a ring
		}
		if t.left <= 0 || depth > maxDepth {
			t.cut = true
			break
		}
		t.left--
		t.shows(e.waiter.line.name)
		row := newClaimRow(e.waiter, t.clock).brief()
		n := treeNode{Key: text(session) + " " + row.Key, Session: from, Who: row.Who, Reason: row.Reason, Wait: &row}
		n.Children = t.children(from, append(slices.Clone(above), from), depth+1)
		n.Behind = behind(n.Children)
		nodes = append(nodes, n)
	}
	return nodes
}

func behind(nodes []treeNode) (n int) {
	for _, child := range nodes {
		n += 1 + child.Behind
	}
	return n
}

// shows notes a name that is on the page.
func (t *treeBuilder) shows(name string) {
	if !t.names[name] && len(t.order) < lookedAt {
		t.names[name] = true
		t.order = append(t.order, name)
	}
}

// The drawing of a ring, in units of its view box.
const (
	ringBox    = 320
	ringRadius = 110
	ringNode   = 18
)

func (t *treeBuilder) ring(c cycle) ring {
	r := ring{Key: text(c.members[0]), Size: len(c.members)}
	edges, places := c.edges[:min(maxRing, len(c.edges))], len(c.edges)
	if r.Hidden = len(c.edges) - len(edges); r.Hidden > 0 {
		places = len(edges) + 1 // a gap for the others
	}
	for i, e := range edges {
		t.shows(e.waiter.line.name)
		row := newClaimRow(e.waiter, t.clock).brief()
		step := ringStep{Number: i + 1, Next: (i+1)%len(c.edges) + 1, Session: e.from(), Who: row.Who, Wait: row, Name: shorten(row.Title, 18)}
		step.place(i, places)
		r.Steps = append(r.Steps, step)
	}
	for _, member := range c.members {
		if t.left <= 0 {
			t.cut = true
			break
		}
		r.Below = append(r.Below, t.children(member, c.members, 1)...)
	}
	return r
}

// place computes where step i of n is drawn, clockwise from the top. The arrow to the
// next step follows the ring.
func (s *ringStep) place(i, n int) {
	point := func(angle, radius float64) (x, y string) {
		return number(ringBox/2 + radius*math.Cos(angle)), number(ringBox/2 + radius*math.Sin(angle))
	}
	turn := 2 * math.Pi / float64(n)
	at := turn*float64(i) - math.Pi/2
	gap := min((ringNode+6)/float64(ringRadius), turn/3) // between a circle and the arrow
	x1, y1 := point(at+gap, ringRadius)
	x2, y2 := point(at+turn-gap, ringRadius)
	long := 0
	if turn-2*gap > math.Pi {
		long = 1
	}
	s.Arrow = fmt.Sprintf("M%s %sA%d %d 0 %d 1 %s %s", x1, y1, ringRadius, ringRadius, long, x2, y2)
	s.X, s.Y = point(at, ringRadius)
	s.NameX, s.NameY = point(at+turn/2, ringRadius*0.6)
}

func number(f float64) string { return fmt.Sprintf("%.1f", f) }
