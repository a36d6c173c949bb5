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
		views, err := e.views(ctx, prefix)
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

// Views returns what every node knows of names that begin with prefix, also what
// no majority holds: for operators.
func (e *Engine) Views(ctx context.Context, prefix string) []View {
	views := make([]View, len(e.nodes))
	done := make(chan int, len(e.nodes))
	limited, cancel := context.WithTimeout(ctx, limit(e.maxTTL))
	defer cancel()
	for i, n := range e.nodes {
		go func() { // ends soon after limited does
			views[i] = View{Node: n.Name}
			for entry, err := range n.Engine.List(limited, prefix) {
				if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
					err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err) // the limit is ours
				}
				if err != nil {
					views[i].Err = err
					break
				}
				views[i].Entries = append(views[i].Entries, entry)
			}
			done <- i
		}()
	}
	for range e.nodes {
		<-done
	}
	return views
}

// views asks for a majority's.
func (e *Engine) views(ctx context.Context, prefix string) ([]View, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	views := e.Views(ctx, prefix)
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
		return nil, fmt.Errorf("quorum: %d of %d nodes answered, %d are needed: %w", len(good), len(e.nodes), e.majority, errors.Join(errs...))
	}
	return good, nil
}

type identity struct {
	name, id string
	try      int
}

// merge makes one entry of those of a majority.
func (e *Engine) merge(views []View) []driver.Entry {
	groups := map[identity][]driver.Entry{}
	for _, v := range views {
		for _, x := range v.Entries {
			if x.Held {
				who := identity{x.Name, x.ID, x.Try}
				groups[who] = append(groups[who], x)
			}
		}
	}
	var all []driver.Entry
	for _, group := range groups {
		if len(group) >= e.majority {
			all = append(all, e.combine(group))
		}
	}
	slices.SortFunc(all, func(a, b driver.Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Token, b.Token))
	})
	return all
}

func (e *Engine) combine(group []driver.Entry) driver.Entry {
	entry := group[0]
	count := map[uint64]int{}
	var left []time.Duration
	entry.Token = 0
	agreed := false
	for _, x := range group {
		entry.Since = max(entry.Since, x.Since)
		left = append(left, x.Left)
		if count[x.Token]++; count[x.Token] >= e.majority {
			entry.Token, agreed = x.Token, true
		} else if !agreed {
			entry.Token = max(entry.Token, x.Token)
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
	views, err := e.views(ctx, x.Name)
	if err != nil {
		return err
	}
	shown := func(s driver.Entry) bool {
		return s.Name == x.Name && s.ID == x.ID && s.Try == x.Try && s.Token == x.Token && s.Held == x.Held
	}
	if !slices.ContainsFunc(e.merge(views), shown) {
		return driver.ErrGone
	}
	for range evictPasses {
		stays := e.evictAt(ctx, views, x)
		if len(stays)+len(e.nodes)-len(views) >= e.majority { // nodes that did not answer may hold it
			return fmt.Errorf("quorum: not evicted at enough nodes: %w", errors.Join(append(stays, driver.ErrUnreachable)...))
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil // it has been broken
		}
		if views, err = e.views(ctx, x.Name); err != nil {
			return nil
		}
	}
	return nil
}

// evictAt breaks what nodes show of a claim, and returns why some did not.
func (e *Engine) evictAt(ctx context.Context, views []View, x driver.Entry) (stays []error) {
	for _, v := range views {
		for _, at := range v.Entries {
			if at.Name != x.Name || at.ID != x.ID || at.Try != x.Try {
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

// Line returns the claims of one name.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	var line []driver.Entry
	for x, err := range e.List(ctx, name) {
		if err != nil {
			return nil, err
		}
		if x.Name == name {
			line = append(line, x)
		}
	}
	return line, nil
}
