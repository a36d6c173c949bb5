package zklock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// List yields the claims on names that begin with prefix. Each line is of one
// moment, or nearly: a claim that goes while it is read is left out. Since counts
// from when a claim entered, also where it holds by now.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		names, err := e.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for page := range slices.Chunk(names, maxAbreast) {
			lists := make([][]driver.Entry, len(page))
			err := each(ctx, len(page), func(ctx context.Context, i int) (err error) {
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

// Line returns the claims of one name: a write that has the server at hand catch
// up, the children of the name's container, and what each of them says.
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
	err := e.main.do(ctx, nil, func(c *zk.Conn) (err error) {
		nodes, _, err = c.Children(e.lines)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil: // maybe that ctx has ended, and nodes the call's own
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

// catchUp has the server at hand catch up, by a write: a sync would not do where
// that server is the leader, which may answer one before it has applied what its
// followers have applied and answered already. Who may only read has nothing better.
func (e *Engine) catchUp(ctx context.Context) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	if _, err := e.tick(ctx, e.lines); err == nil || ctx.Err() != nil || errors.Is(err, driver.ErrUnreachable) {
		return err
	}
	return e.main.do(ctx, nil, func(c *zk.Conn) error {
		_, err := c.Sync(e.root)
		return err
	})
}

// list reads one line with all that its nodes tell.
func (e *Engine) list(ctx context.Context, name string) ([]driver.Entry, error) {
	n, all, err := e.readAll(ctx, e.main, nil, name)
	if err != nil {
		return nil, err
	}
	entries := make([]driver.Entry, len(all))
	for i, x := range all {
		en := &entries[i]
		en.Claim, en.Session, en.Foreign = x.Claim, x.session, x.foreign
		en.Name = name
		en.Since = e.age(x.stat.Ctime)
		if n.judge(i).held {
			en.Held, en.Fence = true, uint64(x.stat.Czxid)
		}
	}
	return entries, nil
}

// A found is a claim's node as it was read.
type found struct {
	child
	details
	stat    *zk.Stat
	foreign bool // its data is not ours
}

// readAll reads a line and all that its nodes tell, in its order. What goes while
// it is read is left out.
func (e *Engine) readAll(ctx context.Context, l *link, f *life, name string) (*line, []*found, error) {
	n, err := e.read(ctx, l, f, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := fetchAll(ctx, l, f, n.path, n.all)
	if err != nil {
		return nil, nil, err
	}
	n.all = n.all[:0]
	for _, x := range all {
		n.all = append(n.all, x.child)
	}
	return n, all, nil
}

// readOf reads a line, and what those nodes tell that are the claim's with this ID.
func (e *Engine) readOf(ctx context.Context, l *link, f *life, name, id string) (*line, []*found, error) {
	n, err := e.read(ctx, l, f, name)
	if err != nil {
		return nil, nil, err
	}
	maybe := slices.DeleteFunc(slices.Clone(n.all), func(c child) bool { return !c.mayBe(id) })
	all, err := fetchAll(ctx, l, f, n.path, maybe)
	return n, slices.DeleteFunc(all, func(x *found) bool { return x.ID != id }), err
}

// fetchAll reads nodes, and leaves out those that have gone.
func fetchAll(ctx context.Context, l *link, f *life, path string, cs []child) ([]*found, error) {
	all := make([]*found, len(cs))
	err := each(ctx, len(cs), func(ctx context.Context, i int) (err error) {
		all[i], err = fetch(ctx, l, f, path, cs[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(x *found) bool { return x == nil })
	slices.SortFunc(all, func(a, b *found) int { return cmp.Compare(a.stat.Czxid, b.stat.Czxid) })
	return all, nil
}

// fetch reads a claim's node; nil: it has gone.
func fetch(ctx context.Context, l *link, f *life, path string, c child) (*found, error) {
	var data []byte
	var stat *zk.Stat
	err := l.do(ctx, f, func(conn *zk.Conn) (err error) {
		data, stat, err = conn.Get(path + "/" + c.node)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	d, ok := parseData(data)
	if !ok {
		d = details{Claim: c.claim()}
	}
	return &found{child: c, details: d, stat: stat, foreign: !ok}, nil
}
