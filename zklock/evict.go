package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Evict breaks exactly the claim that x shows. One that waits is told by its desk,
// in the same step: it must not take the next event for its turn.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	if err := e.witness(ctx, e.main, nil); err != nil {
		return err
	}
	n, all, err := e.readOf(ctx, e.main, nil, x.Name, x.ID)
	if err != nil {
		return err
	}
	for _, c := range all {
		held := n.judge(n.at(c.node)).held
		if c.Try != x.Try || held != x.Held || held && uint64(c.stat.Czxid) != x.Fence || !held && x.Fence != 0 {
			continue
		}
		return e.evict(ctx, n.path+"/"+c.node, uint64(c.stat.EphemeralOwner), held)
	}
	return fmt.Errorf("lock %q: %w", x.Name, driver.ErrGone)
}

// evict ends a node, and tells the desk of its life unless it holds. That there is
// no desk, so that the claim has not begun to wait, is part of the step too: by
// the time of another it may have.
func (e *Engine) evict(ctx context.Context, path string, life uint64, held bool) error {
	remove := &zk.DeleteRequest{Path: path, Version: -1}
	desk := e.deskPath(life)
	tell := []any{remove, &zk.SetDataRequest{Path: desk, Version: -1}}
	none := []any{remove,
		&zk.CreateRequest{Path: desk, Acl: e.acl(), Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: desk, Version: -1},
	}
	if held {
		tell = tell[:1]
	}
	for {
		at, err := e.multi(ctx, tell)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if at == 0 {
			return driver.ErrGone
		}
		at, err = e.multi(ctx, none)
		switch {
		case errors.Is(err, zk.ErrNodeExists): // it has come
		case !errors.Is(err, zk.ErrNoNode):
			return err
		case at == 0:
			return driver.ErrGone
		default:
			if err := e.makePath(ctx, e.main, nil, e.desks); err != nil {
				return err
			}
		}
	}
}

// multi sends a Multi that belongs to no session, and says which part of it failed.
func (e *Engine) multi(ctx context.Context, ops []any) (at int, err error) {
	var res []zk.MultiResponse
	err = e.main.do(ctx, nil, func(c *zk.Conn) error {
		got, err := c.Multi(ops...)
		res = got
		return err
	})
	if !errors.Is(err, zk.ErrNoNode) { // which may be that ctx has ended, and res the call's own
		return 0, err
	}
	return failed(res), err
}
