package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// Engine keeps lines of claims in ZooKeeper. It is safe for concurrent use.
type Engine struct {
	options
	root, lines, records, evictions string // paths
	ends, walked                    string // in records

	main     *zkstore.Conn // for calls that belong to no session; on a connection of the user's, for all
	borrowed bool          // main is the user's
	servers  []string

	sessions  *driverkit.Sessions[*session]
	ctx       context.Context // ends when Close begins
	cancel    context.CancelFunc
	closeOnce sync.Once

	mu         sync.Mutex // guards what follows
	evictNodes map[*zkstore.Session]*evictNode
	leftovers  []error // why claims of sessions that have ended are still in line
	server     serverTime
	cleaning   bool // expired records are looked for
	idle       idleLines
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// linePath is the container of a name's line.
func (e *Engine) linePath(name string) string { return e.lines + "/" + encode(name) }

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// createPath creates a node and those above it that are missing.
func (e *Engine) createPath(ctx context.Context, caller zkstore.Caller, path string) error {
	create := func() error {
		return caller.Call(ctx, func(c *zk.Conn) error {
			_, err := c.Create(path, nil, zk.FlagPersistent, e.acl())
			return err
		})
	}
	err := create()
	if parent := path[:len(path)-len(base(path))-1]; errors.Is(err, zk.ErrNoNode) && parent != "" {
		if err = e.createPath(ctx, caller, parent); err != nil {
			return err
		}
		err = create()
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// barrier is a write that changes nothing. Its reply shows that the ZooKeeper session
// existed when a majority agreed, and that the connected server has applied everything
// that was committed before.
func (e *Engine) barrier(ctx context.Context, caller zkstore.Caller) error {
	var err error
	for _, path := range []string{e.root, "/"} { // "/" always exists, but may be closed to this user
		err = caller.Call(ctx, func(c *zk.Conn) error {
			_, err := c.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
			return err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			break
		}
	}
	return err
}

// children returns the names of a node's children in their order: none where this user may not
// read them.
func (e *Engine) children(ctx context.Context, path string) (names []string, err error) {
	err = e.main.Call(ctx, func(c *zk.Conn) (err error) {
		names, _, err = c.Children(path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, driver.ErrDenied) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (e *Engine) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	err = e.main.Call(ctx, func(c *zk.Conn) (err error) {
		data, stat, err = c.Get(path)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return data, stat, nil
}

func (e *Engine) set(ctx context.Context, path string, data []byte, version int32) error {
	return e.main.Call(ctx, func(c *zk.Conn) error {
		_, err := c.Set(path, data, version)
		return err
	})
}
