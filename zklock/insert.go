package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// insert puts all claims into their lines in one Multi, and returns their containers as
// they were right after. again says that the lines have changed and nothing was done.
func (s *session) insert(ctx context.Context, all []*entering) (containers []*zk.Stat, again bool, err error) {
	for {
		res, err := s.sendMulti(ctx, all)
		if err == nil {
			containers = make([]*zk.Stat, len(all))
			for i := range all {
				containers[i] = res[2*i+1].Stat
			}
			return containers, false, nil
		}
		if errors.Is(err, zk.ErrNoNode) {
			if again, err = s.repair(ctx, all, res); err == nil && !again {
				continue
			}
		}
		s.discardUnsent(all)
		switch {
		case again || errors.Is(err, zk.ErrBadVersion):
			return nil, true, nil
		case errors.Is(err, zk.ErrShortBuffer):
			err = tooMany(len(all))
		}
		return nil, false, err
	}
}

// tooMany is the error of claims that do not fit into one request.
func tooMany(names int) error {
	return fmt.Errorf("%w: %d names in one step", driver.ErrUnsupported, names)
}

// sendMulti sends the Multi. Its outcome is noted in the claims' states also when ctx ends
// first, so that a later call finds it.
func (s *session) sendMulti(ctx context.Context, all []*entering) ([]zk.MultiResponse, error) {
	if err := s.zs.Ready(ctx); err != nil {
		return nil, err
	}
	answered := make(chan struct{})
	s.mu.Lock()
	if s.closed { // since this call began: removeClaims may have passed already
		s.mu.Unlock()
		return nil, driver.ErrGone
	}
	for _, a := range all {
		a.state.entering = answered
	}
	s.mu.Unlock()
	ops := s.multiOps(all)
	var res []zk.MultiResponse // read after answered is closed
	var err error
	send := func(c *zk.Conn) (err error) {
		res, err = c.Multi(ops...)
		return err
	}
	begun := s.zs.Start(ops[0].(*zk.CreateRequest).Path, send, func(outcome error) {
		err = outcome
		s.noteOutcome(all, res, err)
		close(answered)
	})
	if !begun {
		s.noteOutcome(all, nil, driver.ErrGone)
		close(answered)
		return nil, driver.ErrGone
	}
	select {
	case <-answered:
		return res, err
	case <-ctx.Done():
		return nil, zkstore.ContextError(ctx)
	}
}

// multiOps are two operations for each claim, and one for each lower try.
func (s *session) multiOps(all []*entering) []any {
	ops := make([]any, 0, 2*len(all))
	for _, a := range all {
		path := s.e.linePath(a.Name)
		ops = append(ops,
			&zk.CreateRequest{
				Path: path + "/" + nodePrefix(a.Claim), Data: encodeData(s.zs.ID, s.id, a.Claim),
				Acl: s.e.acl(), Flags: zk.FlagEphemeralSequential,
			},
			&zk.SetDataRequest{Path: path, Version: a.version})
	}
	for _, a := range all {
		for _, path := range a.lower {
			ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
		}
	}
	return ops
}

// noteOutcome takes in the reply to a Multi.
func (s *session) noteOutcome(all []*entering, res []zk.MultiResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range all {
		state := a.state
		state.entering = nil
		switch {
		case err == nil:
			state.node, state.token = base(res[2*i].String), uint64(res[2*i+1].Stat.Mzxid)
			state.mayExist = false
		case zkstore.OutcomeUnknown(err):
			state.mayExist = true
		}
	}
	if err == nil {
		s.e.observeTime(res[1].Stat.Mtime)
	}
}

// discardUnsent forgets claims that were not sent.
func (s *session) discardUnsent(all []*entering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		if state := a.state; s.claims[a.ID] == state && state.node == "" && state.entering == nil && !state.mayExist {
			delete(s.claims, a.ID)
		}
	}
}

// repair creates the containers that a Multi missed, or takes out of it a lower try that is
// gone. again says that a line which was read is no longer there.
func (s *session) repair(ctx context.Context, all []*entering, res []zk.MultiResponse) (again bool, err error) {
	at := failedOp(res)
	if i := at - 2*len(all); i >= 0 {
		for _, a := range all {
			if i < len(a.lower) {
				a.lower = append(a.lower[:i:i], a.lower[i+1:]...)
				return false, nil
			}
			i -= len(a.lower)
		}
	}
	// The Multi ended at the first container that it missed. All that follow and were not
	// seen may be missing too: one at a time, it would be sent as often as there are names.
	missing := []*entering{all[at/2]}
	for _, a := range all[at/2+1:] {
		if a.container == 0 {
			missing = append(missing, a)
		}
	}
	existed := make([]bool, len(missing))
	err = forEach(ctx, len(missing), func(ctx context.Context, i int) (err error) {
		existed[i], err = s.createContainer(ctx, missing[i].Name)
		return err
	})
	if err != nil {
		return false, err
	}
	for i, a := range missing {
		again = again || a.version >= 0 && (existed[i] || a.container != 0)
	}
	return again, nil
}

// createContainer creates the container of a line, and reports whether it existed.
func (s *session) createContainer(ctx context.Context, name string) (existed bool, err error) {
	create := func() error {
		return s.zs.Call(ctx, func(c *zk.Conn) error {
			_, err := c.CreateContainer(s.e.linePath(name), nil, zk.FlagContainer, s.e.acl())
			return err
		})
	}
	err = create()
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.e.createPath(ctx, s.zs, s.e.lines); err == nil {
			err = create()
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return true, nil
	}
	return false, err
}
