package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// List yields the claims that a majority holds. A majority of the nodes must
// answer.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		views, err := e.agree(ctx, e.views(ctx, collect(prefix), nil))
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, entry := range e.merge(views) {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// A View is what one node knows of some names.
type View struct {
	Node    string
	Entries []driver.Entry
	Err     error // why it could not be asked
}

// Line returns the claims of one name that a majority holds. Every node is asked
// for its line of the name, all at once. Once a majority has answered, those that
// could not change the outcome are not waited for, and the others not for long.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	views, err := e.agree(ctx, e.views(ctx, line(name), e.settled))
	if err != nil {
		return nil, err
	}
	return e.merge(views), nil
}

// Views returns what every node knows of names that begin with prefix, also what
// no majority holds: for operators. It goes through all names of every node.
func (e *Engine) Views(ctx context.Context, prefix string) []View {
	return e.views(ctx, collect(prefix), nil)
}

// Lines returns what every node knows of one name, also what no majority holds.
func (e *Engine) Lines(ctx context.Context, name string) []View {
	return e.views(ctx, line(name), nil)
}

// collect and line are the two ways to ask a node.
func collect(prefix string) func(context.Context, driver.Engine) ([]driver.Entry, error) {
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

func line(name string) func(context.Context, driver.Engine) ([]driver.Entry, error) {
	return func(ctx context.Context, n driver.Engine) ([]driver.Entry, error) { return n.Line(ctx, name) }
}

// views asks every node, and returns when all have answered. With enough, it also
// returns when that says so, or a while after a majority has answered. A node that
// was not waited for has errWaiting.
func (e *Engine) views(ctx context.Context, ask func(context.Context, driver.Engine) ([]driver.Entry, error), enough func([]View) bool) []View {
	type answer struct {
		i    int
		view View
	}
	limited, cancel := context.WithTimeout(ctx, limit(e.maxTTL))
	defer cancel()
	answers, views := make(chan answer, len(e.nodes)), make([]View, len(e.nodes))
	for i, n := range e.nodes {
		views[i] = View{Node: n.Name, Err: errWaiting}
		if !e.start(func() { // ends soon after limited does
			entries, err := ask(limited, n.Engine)
			if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err) // the limit is ours
			}
			answers <- answer{i, View{n.Name, entries, err}}
		}) {
			answers <- answer{i, View{Node: n.Name, Err: errClosed}}
		}
	}
	var grace <-chan time.Time
	good := 0
	for range e.nodes {
		select {
		case a := <-answers:
			views[a.i] = a.view
			if a.view.Err == nil {
				good++
			}
		case <-grace:
			return views
		}
		switch {
		case enough == nil || good < e.majority:
		case enough(views):
			return views
		case grace == nil:
			timer := time.NewTimer(tick(e.maxTTL))
			defer timer.Stop()
			grace = timer.C
		}
	}
	return views
}

// settled reports, once a majority has answered, whether no further answer can
// change what it holds.
func (e *Engine) settled(views []View) bool {
	waiting := 0
	for _, v := range views {
		if errors.Is(v.Err, errWaiting) {
			waiting++
		}
	}
	for _, group := range groups(views) {
		agreeing := map[uint64]int{}
		most := 0
		for _, x := range group {
			agreeing[x.Fence]++
			most = max(most, agreeing[x.Fence])
		}
		if most < e.majority && len(group)+waiting >= e.majority { // whether it is held, or with which token
			return false
		}
	}
	return true
}

// agree returns the views of the nodes that answered, which must be a majority.
func (e *Engine) agree(ctx context.Context, views []View) ([]View, error) {
	var good []View
	var errs []error
	for _, v := range views {
		if v.Err == nil {
			good = append(good, v)
		} else {
			errs = append(errs, &nodeError{v.Node, v.Err})
		}
	}
	if len(good) < e.majority {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("quorum: %d of %d nodes answered, %d are needed: %w", len(good), len(e.nodes), e.majority, driver.Join(errs...))
	}
	return good, nil
}

type identity struct {
	name, id string
	try      int
}

// groups are the nodes' entries of each claim that is held.
func groups(views []View) map[identity][]driver.Entry {
	by := map[identity][]driver.Entry{}
	for _, v := range views {
		for _, x := range v.Entries {
			if x.Held {
				who := identity{x.Name, x.ID, x.Try}
				by[who] = append(by[who], x)
			}
		}
	}
	return by
}

// merge makes one entry of those of a majority.
func (e *Engine) merge(views []View) []driver.Entry {
	var all []driver.Entry
	for _, group := range groups(views) {
		if len(group) >= e.majority {
			all = append(all, e.combine(group))
		}
	}
	slices.SortFunc(all, func(a, b driver.Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Fence, b.Fence))
	})
	return all
}

func (e *Engine) combine(group []driver.Entry) driver.Entry {
	entry := group[0]
	count := map[uint64]int{}
	var left []time.Duration
	entry.Fence = 0
	agreed := false
	for _, x := range group {
		entry.Since = max(entry.Since, x.Since)
		left = append(left, x.Left)
		if count[x.Fence]++; count[x.Fence] >= e.majority {
			entry.Fence, agreed = x.Fence, true
		} else if !agreed {
			entry.Fence = max(entry.Fence, x.Fence)
		}
	}
	slices.Sort(left)
	entry.Left = left[len(left)-e.majority] // until fewer than a majority hold it
	return entry
}

// evictPasses is how often Evict looks for what is left of a claim: its Enter may
// still be on the way to a node that the majority did not wait for.
const evictPasses = 3

// Evict breaks the claim at every node that has it. It answers ErrGone if no
// majority holds it as x shows it.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	views, err := e.agree(ctx, e.Lines(ctx, x.Name))
	if err != nil {
		return err
	}
	shown := func(s driver.Entry) bool {
		return s.Name == x.Name && s.ID == x.ID && s.Try == x.Try && s.Fence == x.Fence && s.Held == x.Held
	}
	if !slices.ContainsFunc(e.merge(views), shown) {
		return driver.ErrGone
	}
	for range evictPasses {
		stays := e.evictAt(ctx, views, x)
		if len(stays)+len(e.nodes)-len(views) >= e.majority { // nodes that did not answer may hold it
			return fmt.Errorf("%w: quorum: not evicted at enough nodes: %w", driver.ErrUnreachable, driver.Join(stays...))
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil // it has been broken
		}
		if views, err = e.agree(ctx, e.Lines(ctx, x.Name)); err != nil {
			return nil
		}
	}
	return nil
}

// evictAt breaks what nodes show of a claim, and returns why some did not.
func (e *Engine) evictAt(ctx context.Context, views []View, x driver.Entry) (stays []error) {
	for _, v := range views {
		for _, at := range v.Entries {
			if at.ID != x.ID || at.Try != x.Try {
				continue
			}
			if err := e.engine(v.Node).Evict(ctx, at); err != nil && !errors.Is(err, driver.ErrGone) {
				stays = append(stays, &nodeError{v.Node, err})
			}
		}
	}
	return stays
}

func (e *Engine) engine(name string) driver.Engine {
	i := slices.IndexFunc(e.nodes, func(n Node) bool { return n.Name == name })
	return e.nodes[i].Engine
}
