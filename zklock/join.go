package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// join enters all claims in one Multi. again says that the lines are not as they
// were, and that nothing was done.
func (s *session) join(ctx context.Context, as []*arrival) (stats []*zk.Stat, again bool, err error) {
	for {
		res, err := s.multi(ctx, as)
		if err == nil {
			stats = make([]*zk.Stat, len(as))
			for i := range as {
				stats[i] = res[2*i+1].Stat
			}
			return stats, false, nil
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			s.abandon(as)
			return nil, true, nil
		case errors.Is(err, zk.ErrNoNode):
			again, err := s.repair(ctx, as, res)
			if err != nil || again {
				s.abandon(as)
				return nil, again, err
			}
		default:
			s.abandon(as)
			return nil, false, err
		}
	}
}

// multi sends the Multi. Its outcome is noted in the spots
// even when ctx ends first, so that a later call finds it.
func (s *session) multi(ctx context.Context, as []*arrival) ([]zk.MultiResponse, error) {
	if err := s.l.ready(ctx, s.f); err != nil {
		return nil, err
	}
	var ( // the answer's until entered is closed
		res []zk.MultiResponse
		err error
	)
	entered := make(chan struct{})
	s.mu.Lock()
	if s.closed { // since this call began: tidy may have been by already
		s.mu.Unlock()
		return nil, driver.ErrGone
	}
	for _, a := range as {
		a.sp.entered = entered
	}
	s.mu.Unlock()
	ops := s.ops(as)
	send := func(c *zk.Conn) (err error) {
		res, err = c.Multi(ops...)
		return err
	}
	started := s.l.start(s.f, ops[0].(*zk.CreateRequest).Path, send, func(answer error) {
		err = answer
		s.entered(as, res, err)
		close(entered)
	})
	if !started {
		s.unsent(as)
		close(entered)
		return nil, driver.ErrGone
	}
	select {
	case <-entered:
		return res, err
	case <-ctx.Done():
		return nil, unanswered(ctx)
	}
}

// ops are two for each claim, and one for each lower try that ends.
func (s *session) ops(as []*arrival) []any {
	ops := make([]any, 0, 2*len(as))
	for _, a := range as {
		path := s.e.linePath(a.Name)
		ops = append(ops,
			&zk.CreateRequest{
				Path: path + "/" + childPrefix(a.Claim), Data: claimData(s.f.id, s.id, a.Claim),
				Acl: s.e.acl(), Flags: zk.FlagEphemeralSequential,
			},
			&zk.SetDataRequest{Path: path, Version: a.version})
	}
	for _, a := range as {
		for _, path := range a.lower {
			ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
		}
	}
	return ops
}

// entered notes what came of a Multi.
func (s *session) entered(as []*arrival, res []zk.MultiResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range as {
		sp := a.sp
		sp.entered = nil
		switch {
		case err == nil:
			sp.node, sp.token = base(res[2*i].String), uint64(res[2*i+1].Stat.Mzxid)
			sp.unsure = false
		case unknown(err):
			sp.unsure = true
		}
	}
	if err == nil {
		s.e.ticked(res[1].Stat.Mtime)
	}
}

// unsent notes that a Multi was not sent.
func (s *session) unsent(as []*arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range as {
		a.sp.entered = nil
	}
}

// failed is which part of a Multi made it fail.
func failed(res []zk.MultiResponse) int {
	at := 0
	for at < len(res)-1 && res[at].Error == nil {
		at++
	}
	return at
}

// repair makes the containers that are missing. A lower try that has gone by
// itself need not be ended.
func (s *session) repair(ctx context.Context, as []*arrival, res []zk.MultiResponse) (again bool, err error) {
	at := failed(res)
	if at >= 2*len(as) {
		i := 2 * len(as)
		for _, a := range as {
			if at < i+len(a.lower) {
				a.lower = append(a.lower[:at-i:at-i], a.lower[at-i+1:]...)
				return false, nil
			}
			i += len(a.lower)
		}
	}
	a := as[at/2]
	path := s.e.linePath(a.Name)
	made := false
	create := func() error {
		return s.l.do(ctx, s.f, func(c *zk.Conn) error {
			_, err := c.CreateContainer(path, nil, zk.FlagContainer, s.e.acl())
			return err
		})
	}
	err = create()
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.e.makePath(ctx, s.l, s.f, s.e.lines); err == nil {
			err = create()
		}
	}
	switch {
	case err == nil:
		made = true
	case errors.Is(err, zk.ErrNodeExists):
		err = nil
	}
	if err == nil && a.version >= 0 {
		return !made || a.made != 0, nil // the line that was seen is another one, unless it was none
	}
	return false, err
}
