package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Evict breaks exactly the claim that x shows. A waiting one is told by its evict node, in
// the same Multi: it must not take the next event for its turn.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.sessions.Begin(ctx); err != nil {
		return err
	}
	if err := e.barrier(ctx, e.main); err != nil {
		return err
	}
	n, all, err := e.readOf(ctx, e.main, x.Name, x.ID)
	if err != nil {
		return err
	}
	for _, c := range all {
		held := n.place(n.index(c.name)).held
		if c.Try != x.Try || held != x.Held || held && uint64(c.stat.Czxid) != x.Fence || !held && x.Fence != 0 {
			continue
		}
		path := n.path + "/" + c.name
		if held {
			return deleteNode(ctx, e.main, path)
		}
		return e.evictWaiter(ctx, path, uint64(c.stat.EphemeralOwner))
	}
	return fmt.Errorf("lock %q: %w", x.Name, driver.ErrGone)
}

// evictWaiter deletes a waiting claim's node and writes to the evict node of its ZooKeeper
// session. Where there is no evict node, because the claim has not begun to wait, the Multi
// depends on that too: the claim may have begun by the time of a second request.
func (e *Engine) evictWaiter(ctx context.Context, path string, zkSession uint64) error {
	remove := &zk.DeleteRequest{Path: path, Version: -1}
	evictNode := e.evictNodePath(zkSession)
	for {
		failed, err := e.multi(ctx, remove, &zk.SetDataRequest{Path: evictNode, Version: -1})
		if !errors.Is(err, zk.ErrNoNode) || failed == 0 {
			return goneIfNoNode(err)
		}
		failed, err = e.multi(ctx, remove,
			&zk.CreateRequest{Path: evictNode, Acl: e.acl(), Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: evictNode, Version: -1},
		)
		switch {
		case errors.Is(err, zk.ErrNodeExists): // it exists by now
		case !errors.Is(err, zk.ErrNoNode), failed == 0:
			return goneIfNoNode(err)
		default:
			if err := e.createPath(ctx, e.main, e.evictions); err != nil {
				return err
			}
		}
	}
}

// multi sends a Multi that belongs to no session. For ErrNoNode it returns which of its
// operations failed.
func (e *Engine) multi(ctx context.Context, ops ...any) (failed int, err error) {
	var res []zk.MultiResponse
	err = e.main.Call(ctx, func(c *zk.Conn) error {
		got, err := c.Multi(ops...)
		res = got
		return err
	})
	if !errors.Is(err, zk.ErrNoNode) { // where ctx has ended, res may still be written
		return 0, err
	}
	return failedOp(res), err
}
