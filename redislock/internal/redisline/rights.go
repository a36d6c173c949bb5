package redisline

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// rights knows whether the user may renew and give back what it may take: a lock that is
// granted and then lost is worse than none. They are read until none is missing; one that
// is revoked later is a denial when it is needed.
type rights struct {
	checked atomic.Bool           // that every claim has its rights
	shared  atomic.Pointer[error] // why a claim that shares has not
}

// check asks every master that answers.
func (g *rights) check(ctx context.Context, s *store) error {
	var alone, shared string
	answered := false
	err := s.Client.EachMaster(ctx, func(do redisclient.Send) error {
		call := redisclient.Call{Script: rightsScript, Args: []string{s.Keys.Fence("")}}
		r, err := do(ctx, call.WithText())
		if err == nil && len(r.Array) == 2 {
			answered = true
			alone, shared = cmp.Or(alone, r.Array[0].Text), cmp.Or(shared, r.Array[1].Text)
		}
		return ctx.Err() // any other error is that of the call that needs the node, or a script
	})
	if err != nil {
		return redisclient.Wrap(err)
	}
	g.shared.Store(nil)
	if shared != "" {
		err := lacks(shared)
		g.shared.Store(&err)
	}
	if alone != "" {
		return lacks(alone)
	}
	g.checked.Store(answered)
	return nil
}

func lacks(rights string) error {
	return fmt.Errorf("redislock: %w: the user lacks%s: a lock could be taken, but not renewed or given back", driver.ErrDenied, rights)
}

// err returns why c may not be entered.
func (g *rights) err(ctx context.Context, s *store, c *driver.Claim) error {
	if c.Exclusive() || g.shared.Load() == nil {
		return nil
	}
	if err := g.check(ctx, s); err != nil { // the right may have been given since
		return err
	}
	if err := g.shared.Load(); err != nil {
		return *err
	}
	return nil
}
