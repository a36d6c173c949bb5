package quorum

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum/internal/nodes"
)

// A NodeLine is what one node knows of a name.
type NodeLine struct {
	Node    string
	Entries []driver.Entry
	Err     error // why the node did not answer
}

// List yields the claims that a majority holds. A majority of the nodes must answer.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		answers, err := e.requireMajority(ctx, e.ask(ctx, listOf(prefix), nil))
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, entry := range e.merge(answers) {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// Line returns the claims of one name that a majority holds. It asks all nodes at
// once. When a majority has answered, it does not wait for answers that cannot change
// the outcome, and not long for the others.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	answers, err := e.requireMajority(ctx, e.ask(ctx, lineOf(name), e.decided))
	if err != nil {
		return nil, err
	}
	return e.merge(answers), nil
}

// NodeLines returns what each node knows of one name, including claims that no
// majority holds, for operators.
func (e *Engine) NodeLines(ctx context.Context, name string) []NodeLine {
	return e.ask(ctx, lineOf(name), nil)
}

type query func(context.Context, driver.Engine) ([]driver.Entry, error)

func listOf(prefix string) query {
	return func(ctx context.Context, n driver.Engine) (all []driver.Entry, err error) {
		for entry, err := range n.List(ctx, prefix) {
			if err != nil {
				return all, err
			}
			all = append(all, entry)
		}
		return all, nil
	}
}

func lineOf(name string) query {
	return func(ctx context.Context, n driver.Engine) ([]driver.Entry, error) { return n.Line(ctx, name) }
}

// ask queries every node and returns when all have answered. With enough, it also
// returns when a majority has answered and enough reports true, or some time after the
// majority has answered. A node that was not waited for has nodes.ErrPending.
func (e *Engine) ask(ctx context.Context, q query, enough func([]NodeLine) bool) []NodeLine {
	type answer struct {
		node int
		line NodeLine
	}
	limited, cancel := context.WithTimeout(ctx, nodes.Limit(e.set.MaxTTL))
	defer cancel()
	answers, lines := make(chan answer, len(e.set.Nodes)), make([]NodeLine, len(e.set.Nodes))
	for i, n := range e.set.Nodes {
		lines[i] = NodeLine{Node: n.Name, Err: nodes.ErrPending}
		if err := e.sessions.Go(func(context.Context) { // ends soon after limited does
			entries, err := q(limited, n.Engine)
			if ctx.Err() == nil {
				err = nodes.Timeout(err)
			}
			answers <- answer{i, NodeLine{n.Name, entries, err}}
		}); err != nil {
			answers <- answer{i, NodeLine{Node: n.Name, Err: err}}
		}
	}
	answered := 0
	_ = nodes.Gather(context.Background(), answers, len(lines), func(a answer) time.Duration { // ends by limited
		lines[a.node] = a.line
		if a.line.Err == nil {
			answered++
		}
		switch {
		case enough == nil || answered < e.set.Majority:
			return nodes.UntilAll
		case enough(lines):
			return 0
		}
		return nodes.StragglerWait(e.set.MaxTTL)
	})
	return lines
}

// requireMajority returns the answers of the nodes that answered, which must be a majority.
func (e *Engine) requireMajority(ctx context.Context, lines []NodeLine) ([]NodeLine, error) {
	var answers []NodeLine
	errs := make([]error, len(lines))
	for i, l := range lines {
		if errs[i] = l.Err; l.Err == nil {
			answers = append(answers, l)
		}
	}
	if len(answers) < e.set.Majority {
		return nil, cmp.Or(ctx.Err(), e.set.TooFew(len(answers), errs))
	}
	return answers, nil
}

// decided reports, once a majority has answered, whether no further answer can change
// which claims a majority holds, nor their tokens.
func (e *Engine) decided(lines []NodeLine) bool {
	pending := 0
	for _, l := range lines {
		if errors.Is(l.Err, nodes.ErrPending) {
			pending++
		}
	}
	for _, entries := range heldClaims(lines) {
		_, agreeing := mostCommonToken(entries)
		if agreeing < e.set.Majority && len(entries)+pending >= e.set.Majority {
			return false
		}
	}
	return true
}

type claimKey struct {
	name, id string
	try      int
}

// heldClaims groups the nodes' entries of held claims by claim.
func heldClaims(lines []NodeLine) map[claimKey][]driver.Entry {
	claims := map[claimKey][]driver.Entry{}
	for _, l := range lines {
		for _, x := range l.Entries {
			if x.Held {
				key := claimKey{x.Name, x.ID, x.Try}
				claims[key] = append(claims[key], x)
			}
		}
	}
	return claims
}

// merge returns one entry for each claim that a majority holds.
func (e *Engine) merge(lines []NodeLine) []driver.Entry {
	var all []driver.Entry
	for _, entries := range heldClaims(lines) {
		if len(entries) >= e.set.Majority {
			all = append(all, combine(entries, e.set.Majority))
		}
	}
	slices.SortFunc(all, func(a, b driver.Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Fence, b.Fence))
	})
	return all
}

// combine makes one entry of a majority's entries of one claim.
func combine(entries []driver.Entry, majority int) driver.Entry {
	entry := entries[0]
	var left []time.Duration
	highest := uint64(0)
	for _, x := range entries {
		entry.Since = max(entry.Since, x.Since)
		highest = max(highest, x.Fence)
		left = append(left, x.Left)
	}
	token, agreeing := mostCommonToken(entries)
	if agreeing < majority {
		token = highest
	}
	entry.Fence = token
	slices.Sort(left)
	entry.Left = left[len(left)-majority] // until fewer nodes than a majority hold it
	return entry
}

// mostCommonToken returns the token that most entries have, and how many have it.
func mostCommonToken(entries []driver.Entry) (token uint64, n int) {
	count := map[uint64]int{}
	for _, x := range entries {
		if count[x.Fence]++; count[x.Fence] > n {
			token, n = x.Fence, count[x.Fence]
		}
	}
	return token, n
}
