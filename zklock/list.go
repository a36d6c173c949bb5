package zklock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// List yields the claims on names that begin with prefix. Each line is of one moment, or
// nearly: a claim that goes while it is read is left out. Since counts from when a claim
// entered, also where it holds by now.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		names, err := e.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for page := range slices.Chunk(names, maxParallel) {
			lists := make([][]driver.Entry, len(page))
			err := forEach(ctx, len(page), func(ctx context.Context, i int) (err error) {
				lists[i], err = e.list(ctx, page[i])
				return err
			})
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, entry := range slices.Concat(lists...) {
				if !yield(entry, nil) {
					return
				}
			}
		}
	}
}

// Line returns the claims of one name: a write that has the connected server catch up, the
// children of the name's container, and the data of each.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := e.catchUp(ctx); err != nil {
		return nil, err
	}
	return e.list(ctx, name)
}

// names returns the names whose lines may have claims, as they are now.
func (e *Engine) names(ctx context.Context, prefix string) ([]string, error) {
	if err := e.catchUp(ctx); err != nil {
		return nil, err
	}
	var nodes []string
	err := e.main.Call(ctx, func(c *zk.Conn) (err error) {
		nodes, _, err = c.Children(e.lines)
		return err
	})
	if err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return nil, err
	}
	slices.Sort(nodes)
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		if name, ok := decode(node); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// catchUp has the connected server catch up, by a write: a sync is not enough where that
// server is the leader, which may answer one before it has applied what its followers have
// applied and answered already. A user who may only read has nothing better.
func (e *Engine) catchUp(ctx context.Context) error {
	if err := e.sessions.Begin(ctx); err != nil {
		return err
	}
	if _, err := e.fetchTime(ctx, e.lines); err == nil || ctx.Err() != nil || errors.Is(err, driver.ErrUnreachable) {
		return err
	}
	return e.main.Call(ctx, func(c *zk.Conn) error {
		_, err := c.Sync(e.root)
		return err
	})
}

// list reads one line with the data of its nodes.
func (e *Engine) list(ctx context.Context, name string) ([]driver.Entry, error) {
	n, all, err := e.readOf(ctx, e.main, name, "")
	if err != nil {
		return nil, err
	}
	n.nodes = n.nodes[:0] // without those that have gone
	for _, x := range all {
		n.nodes = append(n.nodes, x.node)
	}
	entries := make([]driver.Entry, len(all))
	for i, x := range all {
		entry := &entries[i]
		entry.Claim, entry.Session, entry.Foreign = x.Claim, x.session, x.foreign
		entry.Name = name
		entry.Since = e.age(x.stat.Ctime)
		if n.place(i).held {
			entry.Held, entry.Fence = true, uint64(x.stat.Czxid)
		}
	}
	return entries, nil
}
