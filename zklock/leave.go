package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Leave gives back units or a place.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		sp := s.spots[c.ID]
		var entered chan struct{}
		later := false
		if sp != nil {
			entered, later = sp.entered, sp.claim.Try > c.Try
		}
		s.mu.Unlock()
		switch {
		case sp == nil:
			return s.sweep(ctx, c)
		case entered == nil && later:
			return driver.ErrGone
		case entered == nil:
			return s.leave(ctx, sp)
		}
		select { // its Enter is still on the way
		case <-entered:
		case <-ctx.Done():
			return unanswered(ctx)
		}
	}
}

// leave ends a claim of ours, wherever it is.
func (s *session) leave(ctx context.Context, sp *spot) error {
	s.mu.Lock()
	c, node, unsure := sp.claim, sp.node, sp.unsure
	marks := sp.held && sp.waited && c.Exclusive()
	s.mu.Unlock()
	path := s.e.linePath(c.Name) + "/" + node
	var err error
	switch {
	case node == "" && !unsure:
		err = driver.ErrGone
	case unsure: // there may be more than one
		err = s.sweep(ctx, c)
	case marks:
		err = s.delete(ctx, &zk.SetDataRequest{Path: path, Data: left, Version: -1}, &zk.DeleteRequest{Path: path, Version: -1})
	default:
		err = s.delete(ctx, &zk.DeleteRequest{Path: path, Version: -1})
	}
	if err == nil || errors.Is(err, driver.ErrGone) && !s.f.ended() {
		s.forget(sp)
	}
	return err
}

// delete ends a node.
func (s *session) delete(ctx context.Context, ops ...any) error {
	err := s.l.do(ctx, s.f, func(c *zk.Conn) error {
		if d, ok := ops[0].(*zk.DeleteRequest); ok {
			return c.Delete(d.Path, d.Version)
		}
		_, err := c.Multi(ops...)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	return err
}

// sweep ends what there is of a claim of which nothing is known here: an Enter
// without an answer may have made it, and may have done so twice.
func (s *session) sweep(ctx context.Context, c driver.Claim) error {
	if err := s.witness(ctx); err != nil {
		return err
	}
	n, all, err := s.e.readOf(ctx, s.l, s.f, c.Name, c.ID)
	if err != nil {
		return err
	}
	ended := false
	for _, x := range all {
		if x.life != s.f.id || x.Try > c.Try {
			continue
		}
		err := s.delete(ctx, &zk.DeleteRequest{Path: n.path + "/" + x.node, Version: -1})
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		ended = ended || err == nil
	}
	if !ended {
		return driver.ErrGone
	}
	return nil
}

// tidy ends the claims of a session on the user's connection, whose life goes on.
// Where the servers cannot be reached it waits until they can, or the life ends,
// or the engine is closed. Where they refuse it gives up, once a mistake would have
// been mended.
func (s *session) tidy() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(s.e.begun, func() { // the engine is being closed: once more, and briefly
		brief, done := context.WithTimeout(context.Background(), closeTimeout)
		context.AfterFunc(brief, func() { done(); cancel() })
	})
	defer stop()
	for begun := now(); ; {
		s.mu.Lock()
		var rest []*spot
		for _, sp := range s.spots {
			rest = append(rest, sp)
		}
		s.mu.Unlock()
		err := each(ctx, len(rest), func(ctx context.Context, i int) error { return s.leaveLate(ctx, rest[i]) })
		if err == nil {
			err = s.clearDesk(ctx)
		}
		if err == nil || s.f.ended() {
			return nil
		}
		if ctx.Err() != nil {
			return unreachable(err)
		}
		if !errors.Is(err, driver.ErrUnreachable) && now().sub(begun) > 2*s.ttl {
			return err
		}
		s.l.calm(ctx, s.f)
	}
}

// leaveLate ends one claim of a session that is over, after its Enter has come
// back.
func (s *session) leaveLate(ctx context.Context, sp *spot) error {
	s.mu.Lock()
	entered := sp.entered
	s.mu.Unlock()
	if entered != nil {
		select {
		case <-entered:
		case <-ctx.Done():
			return unanswered(ctx)
		}
	}
	if err := s.leave(ctx, sp); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
