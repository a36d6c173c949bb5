package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxEdges limits the graph: with many holders and many waiters of one name, each
// waits for each.
const maxEdges = 50_000

// A graph says which sessions wait for which.
type graph struct {
	waits  map[string][]edge // by the session that waits
	blocks map[string][]edge // by the session that is waited for
	cut    bool              // there are more edges than these
}

// An edge is a claim that waits, and one claim in its way, of the same line.
type edge struct {
	waiter  place
	blocker place
}

func (e edge) from() string { return sessionOf(e.waiter.entry()) }
func (e edge) to() string   { return sessionOf(e.blocker.entry()) }

// blocking returns who blocks whom.
func (s *snapshot) blocking() *graph {
	s.graphOnce.Do(func() { s.graph = newGraph(s.lines, maxEdges) })
	return s.graph
}

// newGraph looks at lines in their order. Claims of one session do not wait for each
// other here: its goroutines come and go independently.
func newGraph(lines []*line, most int) *graph {
	g := &graph{waits: map[string][]edge{}, blocks: map[string][]edge{}}
	n := 0
	for _, l := range lines {
		held, ahead := newHolders(l), -1
		for at, e := range l.entries {
			if e.Held {
				continue
			}
			blockers := held.blockers(e, ahead)
			ahead = at
			for _, b := range blockers {
				edge := edge{place{l, at}, place{l, b}}
				if edge.from() == edge.to() {
					continue
				}
				if n++; n > most {
					g.cut = true
					return g
				}
				g.waits[edge.from()] = append(g.waits[edge.from()], edge)
				g.blocks[edge.to()] = append(g.blocks[edge.to()], edge)
			}
		}
	}
	return g
}

// holders are the claims of a line that are held.
type holders struct {
	at        []int // in the line
	permits   int64
	exclusive bool // one of them is
}

func newHolders(l *line) (h holders) {
	for i, e := range l.entries {
		if e.Held {
			h.at = append(h.at, i)
			h.permits += int64(e.Need)
			h.exclusive = h.exclusive || e.Exclusive()
		}
	}
	return h
}

// blockers returns the claims that a waiting claim waits for: the holders, unless it
// would fit beside them. Then it is the nearest claim ahead of it that also waits, as
// for a reader behind a writer while other readers hold; -1: it is the first.
func (h holders) blockers(waits driver.Entry, ahead int) []int {
	if len(h.at) > 0 && (h.exclusive || waits.Exclusive() || h.permits+int64(waits.Need) > int64(waits.Limit)) {
		return h.at
	}
	if ahead < 0 {
		return nil // its turn has come
	}
	return []int{ahead}
}

// roots returns the sessions that others wait for and that wait for nothing, the one
// that causes most waiting first.
func (g *graph) roots() []string {
	var roots []string
	for session := range g.blocks {
		if len(g.waits[session]) == 0 {
			roots = append(roots, session)
		}
	}
	g.sort(roots)
	return roots
}

func (g *graph) sort(sessions []string) {
	caused := map[string]time.Duration{}
	for _, s := range sessions {
		for _, e := range g.blocks[s] {
			caused[s] += e.waiter.entry().Since
		}
	}
	slices.SortFunc(sessions, func(a, b string) int {
		return cmp.Or(cmp.Compare(caused[b], caused[a]), strings.Compare(a, b))
	})
}

// A cycle is sessions of which each waits for the next, and the last for the first.
// It is a suspicion: another goroutine of a session may release what it holds.
type cycle struct {
	edges   []edge   // one for each step
	members []string // all sessions that are part of this cycle or of one that crosses it
}

// cycles returns one cycle for each group of sessions that wait for each other.
func (g *graph) cycles() []cycle {
	var all []cycle
	for _, members := range g.components() {
		if len(members) > 1 {
			g.sort(members)
			all = append(all, cycle{g.shortest(members), members})
		}
	}
	slices.SortFunc(all, func(a, b cycle) int { return strings.Compare(a.members[0], b.members[0]) })
	return all
}

// components returns the strongly connected components, by Tarjan's algorithm.
func (g *graph) components() (all [][]string) {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	position := map[string]int{} // in stack
	var visit func(s string)
	visit = func(s string) {
		index[s] = len(index) + 1
		low[s] = index[s]
		position[s] = len(stack)
		stack = append(stack, s)
		onStack[s] = true
		for _, e := range g.waits[s] {
			if to := e.to(); index[to] == 0 {
				visit(to)
				low[s] = min(low[s], low[to])
			} else if onStack[to] {
				low[s] = min(low[s], index[to])
			}
		}
		if low[s] != index[s] {
			return
		}
		at := position[s]
		all = append(all, slices.Clone(stack[at:]))
		for _, member := range stack[at:] {
			onStack[member] = false
		}
		stack = stack[:at]
	}
	for s := range g.waits {
		if index[s] == 0 {
			visit(s)
		}
	}
	return all
}

// maxStarts limits the search for a short cycle in a large component.
const maxStarts = 50

// shortest returns a shortest cycle through one of the first members.
func (g *graph) shortest(members []string) (best []edge) {
	in := map[string]bool{}
	for _, m := range members {
		in[m] = true
	}
	for _, start := range members[:min(maxStarts, len(members))] {
		if c := g.cycleThrough(start, in); best == nil || c != nil && len(c) < len(best) {
			best = c
		}
	}
	return best
}

// cycleThrough searches breadth first for the way from a session back to itself.
func (g *graph) cycleThrough(start string, in map[string]bool) []edge {
	came := map[string]edge{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, e := range g.waits[queue[0]] {
			to := e.to()
			if to == start {
				way := []edge{e}
				for at := queue[0]; at != start; at = came[at].from() {
					way = append(way, came[at])
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := came[to]; in[to] && !seen {
				came[to] = e
				queue = append(queue, to)
			}
		}
	}
	return nil
}
