package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// Leave gives back units or a place.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		cs := s.claims[c.ID]
		var entering chan struct{}
		later := false
		if cs != nil {
			entering, later = cs.entering, cs.claim.Try > c.Try
		}
		s.mu.Unlock()
		switch {
		case cs == nil:
			return s.removeStrays(ctx, c)
		case entering == nil && later:
			return driver.ErrGone
		case entering == nil:
			return s.leave(ctx, cs)
		}
		select {
		case <-entering:
		case <-ctx.Done():
			return zkstore.ContextError(ctx)
		}
	}
}

// leave ends a claim of this session, whatever is known of it.
func (s *session) leave(ctx context.Context, cs *claimState) error {
	s.mu.Lock()
	c, own, mayExist := cs.claim, cs.node, cs.mayExist
	handsOver := cs.handsOverLocked()
	s.mu.Unlock()
	path := s.e.linePath(c.Name) + "/" + own
	var err error
	switch {
	case own == "" && !mayExist:
		err = driver.ErrGone
	case mayExist: // there may be more than one node
		err = s.removeStrays(ctx, c)
	case handsOver:
		err = s.markAndDelete(ctx, path)
	default:
		err = deleteNode(ctx, s.zs, path)
	}
	s.left(cs, err)
	return err
}

// left forgets a claim that was left with err, if nothing of it is in line.
func (s *session) left(cs *claimState, err error) {
	if err != nil && !errors.Is(err, driver.ErrGone) || err != nil && s.zs.Ended() {
		return
	}
	s.mu.Lock()
	held := cs.held
	s.mu.Unlock()
	if held && err == nil {
		s.e.lineLeft(s.e.linePath(cs.claim.Name))
	}
	s.forget(cs)
}

// handsOverLocked reports whether others are told that the claim has left, see markAndDelete.
func (cs *claimState) handsOverLocked() bool { return cs.held && cs.hasWaited && cs.claim.Exclusive() }

// deleteNode deletes a node; ErrGone says that it was not there.
func deleteNode(ctx context.Context, caller zkstore.Caller, path string) error {
	return goneIfNoNode(caller.Call(ctx, func(c *zk.Conn) error { return c.Delete(path, -1) }))
}

// markAndDelete writes to a holder's node and deletes it, in one Multi: the waiter behind is
// told "changed", and so knows that every claim ahead of it is gone.
func (s *session) markAndDelete(ctx context.Context, path string) error {
	return goneIfNoNode(s.zs.Call(ctx, func(c *zk.Conn) error {
		_, err := c.Multi(&zk.SetDataRequest{Path: path, Data: leftData, Version: -1}, &zk.DeleteRequest{Path: path, Version: -1})
		return err
	}))
}

func goneIfNoNode(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	return err
}

// removeStrays deletes the nodes of a claim of which nothing is known here: an Enter without
// an answer may have created one, or two.
func (s *session) removeStrays(ctx context.Context, c driver.Claim) error {
	if err := s.barrier(ctx); err != nil {
		return err
	}
	n, all, err := s.e.readOf(ctx, s.zs, c.Name, c.ID)
	if err != nil {
		return err
	}
	deleted := false
	for _, x := range all {
		if x.zkSession != s.zs.ID || x.Try > c.Try {
			continue
		}
		err := deleteNode(ctx, s.zs, n.path+"/"+x.name)
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		deleted = deleted || err == nil
	}
	if !deleted {
		return driver.ErrGone
	}
	return nil
}
