package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A desk is an ephemeral node of each life that has claims waiting, and has one
// watch on it. Whoever evicts a waiting claim writes to the desk of its life in
// the same step, so that the claim looks before it believes in any other event.
// One watch for all claims does what one on each would.

func (e *Engine) deskPath(life uint64) string { return fmt.Sprintf("%s/%016x", e.desks, life) }

// desk returns the watch on the desk of f, and makes the desk at first need. A
// claim that was seen in its line after that, and while the watch has not fired,
// has not been evicted.
func (e *Engine) desk(ctx context.Context, l *link, f *life) (*watch, error) {
	path := e.deskPath(f.id)
	for {
		w, err := l.watch(ctx, f, watchKey{path: path})
		if !errors.Is(err, zk.ErrNoNode) {
			return w, err
		}
		if err := e.makeDesk(ctx, l, f, path); err != nil {
			return nil, err
		}
	}
}

func (e *Engine) makeDesk(ctx context.Context, l *link, f *life, path string) error {
	for made := false; ; made = true {
		err := e.createDesk(ctx, l, f, path)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || made:
			return err
		}
		if err := e.makePath(ctx, l, f, e.desks); err != nil {
			return err
		}
	}
}

// createDesk is counted until its answer, also when ctx ends first: clearDesk must
// not come before it. Nobody makes a desk for a life that has no session any more.
func (e *Engine) createDesk(ctx context.Context, l *link, f *life, path string) error {
	if err := l.ready(ctx, f); err != nil {
		return err
	}
	l.mu.Lock()
	if len(f.members) == 0 {
		l.mu.Unlock()
		return driver.ErrGone
	}
	f.desked = true
	f.making++
	l.mu.Unlock()
	answered := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		f.making--
		l.changeLocked()
	}
	done := make(chan error, 1)
	create := func(c *zk.Conn) error {
		_, err := c.Create(path, nil, zk.FlagEphemeral, e.acl())
		return err
	}
	started := l.start(f, path, create, func(err error) {
		answered()
		done <- err
	})
	if !started {
		answered()
		return driver.ErrGone
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unanswered(ctx)
	}
}

// clearDesk removes the desk of a life that goes on without a session. One that
// was opened meanwhile, and waits, is told by that as by any other event there,
// and looks.
func (s *session) clearDesk(ctx context.Context) error {
	for {
		s.l.mu.Lock()
		none, making, changed := !s.f.desked || len(s.f.members) > 0, s.f.making > 0, s.l.changed
		s.l.mu.Unlock()
		if none {
			return nil
		}
		if !making {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return unanswered(ctx)
		}
	}
	err := s.delete(ctx, &zk.DeleteRequest{Path: s.e.deskPath(s.f.id), Version: -1})
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
