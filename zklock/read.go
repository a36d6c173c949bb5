package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// read reads a line as the connected server knows it, which may be a little behind, but
// never behind what the ZooKeeper session has seen or done.
func (e *Engine) read(ctx context.Context, caller zkstore.Caller, name string) (*line, error) {
	n := &line{path: e.linePath(name)}
	var names []string
	var stat *zk.Stat
	err := caller.Call(ctx, func(c *zk.Conn) (err error) {
		names, stat, err = c.Children(n.path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return n, nil
	case err != nil:
		return nil, err
	}
	n.container, n.version, n.creations, n.changes = stat.Czxid, stat.Version, creationsOf(stat), stat.Cversion
	if err := n.parseNames(names); err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return n, sortNodes(ctx, caller, n)
}

// sortNodes sorts a line: by sequence number while these can be trusted, else by the zxid
// of each node, which is read.
func sortNodes(ctx context.Context, caller zkstore.Caller, n *line) error {
	slices.SortFunc(n.nodes, func(a, b node) int { return cmp.Compare(a.seq, b.seq) })
	if n.orderedBySeq() {
		return nil
	}
	zxids := make([]int64, len(n.nodes))
	err := forEach(ctx, len(n.nodes), func(ctx context.Context, i int) error {
		return caller.Call(ctx, func(c *zk.Conn) error {
			exists, stat, err := c.Exists(n.path + "/" + n.nodes[i].name)
			if err == nil && exists {
				zxids[i] = stat.Czxid
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	created := make(map[string]int64, len(n.nodes))
	for i, x := range n.nodes {
		created[x.name] = zxids[i]
	}
	n.nodes = slices.DeleteFunc(n.nodes, func(x node) bool { return created[x.name] == 0 }) // gone meanwhile
	slices.SortFunc(n.nodes, func(a, b node) int { return cmp.Compare(created[a.name], created[b.name]) })
	return nil
}

// A nodeInfo is a claim's node with its data.
type nodeInfo struct {
	node
	nodeData
	stat    *zk.Stat
	foreign bool // its data is not pawl's
}

// readOf reads a line, and the data of the nodes of the claim with this ID, or of all if it
// is empty, in the line's order. It has no data of nodes that go while they are read.
func (e *Engine) readOf(ctx context.Context, caller zkstore.Caller, name, id string) (*line, []*nodeInfo, error) {
	n, err := e.read(ctx, caller, name)
	if err != nil {
		return nil, nil, err
	}
	candidates := slices.DeleteFunc(slices.Clone(n.nodes), func(x node) bool { return !x.mayBeOf(id) })
	all, err := fetchAll(ctx, caller, n.path, candidates)
	return n, slices.DeleteFunc(all, func(x *nodeInfo) bool { return id != "" && x.ID != id }), err
}

// fetchAll reads the data of nodes, and leaves out those that have gone.
func fetchAll(ctx context.Context, caller zkstore.Caller, path string, nodes []node) ([]*nodeInfo, error) {
	all := make([]*nodeInfo, len(nodes))
	err := forEach(ctx, len(nodes), func(ctx context.Context, i int) (err error) {
		all[i], err = fetch(ctx, caller, path, nodes[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(x *nodeInfo) bool { return x == nil })
	slices.SortFunc(all, func(a, b *nodeInfo) int { return cmp.Compare(a.stat.Czxid, b.stat.Czxid) })
	return all, nil
}

// fetch reads the data of a node; nil: it has gone.
func fetch(ctx context.Context, caller zkstore.Caller, path string, n node) (*nodeInfo, error) {
	var data []byte
	var stat *zk.Stat
	err := caller.Call(ctx, func(c *zk.Conn) (err error) {
		data, stat, err = c.Get(path + "/" + n.name)
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
		d = nodeData{Claim: n.claim()}
	}
	return &nodeInfo{node: n, nodeData: d, stat: stat, foreign: !ok}, nil
}
