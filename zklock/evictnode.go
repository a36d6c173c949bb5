package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// An evictNode is an ephemeral node of each ZooKeeper session that has claims waiting,
// with one watch on it. An eviction of a waiting claim writes to it in the same Multi, so
// that the waiter reads its line before it believes any other event. One watch for all
// claims does what a watch on each claim's own node would.
type evictNode struct {
	zs   *zkstore.Session
	path string

	// guarded by Engine.mu
	users    int // sessions
	mayExist bool
	creating int           // requests to create it that are not answered
	created  chan struct{} // closed when creating returns to 0; nil: it is 0
}

func (e *Engine) evictNodePath(zkSession uint64) string {
	return fmt.Sprintf("%s/%016x", e.evictions, zkSession)
}

// useEvictNode adds a session to the users of the evict node of zs.
func (e *Engine) useEvictNode(zs *zkstore.Session) *evictNode {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.evictNodes[zs]
	if n == nil {
		n = &evictNode{zs: zs, path: e.evictNodePath(zs.ID)}
		e.evictNodes[zs] = n
	}
	n.users++
	return n
}

func (e *Engine) dropEvictNode(n *evictNode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(e.evictNodes, n.zs)
	}
}

// watchEvictNode returns the watch on the session's evict node, which it creates at first
// need. A claim that was seen in its line after that, while the watch has not fired, has
// not been evicted.
func (s *session) watchEvictNode(ctx context.Context) (*zkstore.Watch, error) {
	for {
		w, err := s.zs.Watch(ctx, zkstore.WatchKey{Path: s.evictNode.path})
		if !errors.Is(err, zk.ErrNoNode) {
			return w, err
		}
		err = s.createEvictNode(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			err = s.e.createPath(ctx, s.zs, s.e.evictions)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
	}
}

// createEvictNode counts its request until that is answered, also when ctx ends first:
// removeEvictNode must not overtake it. An evict node without a user is not created.
func (s *session) createEvictNode(ctx context.Context) error {
	if err := s.zs.Ready(ctx); err != nil {
		return err
	}
	e, n := s.e, s.evictNode
	e.mu.Lock()
	if n.users == 0 {
		e.mu.Unlock()
		return driver.ErrGone
	}
	n.mayExist = true
	if n.creating++; n.creating == 1 {
		n.created = make(chan struct{})
	}
	e.mu.Unlock()
	answered := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if n.creating--; n.creating == 0 {
			close(n.created)
			n.created = nil
		}
	}
	create := func(c *zk.Conn) error {
		_, err := c.Create(n.path, nil, zk.FlagEphemeral, e.acl())
		return err
	}
	done := make(chan error, 1)
	begun := s.zs.Start(n.path, create, func(err error) {
		answered()
		done <- err
	})
	if !begun {
		answered()
		return driver.ErrGone
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return zkstore.ContextError(ctx)
	}
}

// removeEvictNode deletes the evict node of a ZooKeeper session that continues without a
// user. A session that was opened meanwhile, and waits, sees the deletion as it sees any
// other event there, and reads its line.
func (s *session) removeEvictNode(ctx context.Context) error {
	for {
		s.e.mu.Lock()
		n := s.evictNode
		needed, created := n.users > 0 || !n.mayExist, n.created
		s.e.mu.Unlock()
		if needed {
			return nil
		}
		if created == nil {
			break
		}
		select {
		case <-created:
		case <-ctx.Done():
			return zkstore.ContextError(ctx)
		}
	}
	err := deleteNode(ctx, s.zs, s.evictNode.path)
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
