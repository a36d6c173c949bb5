package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// errStanding ends the checks of several claims: one is not to be inserted, so none is.
var errStanding = errors.New("a claim has a standing")

// precheck reads lines before claims are inserted, where that is needed: for a claim that
// may be in line already, and for one that does not queue. It returns standings where no
// claim is to be inserted.
func (s *session) precheck(ctx context.Context, all, fresh []*entering) ([]driver.Standing, error) {
	standings := make([]*driver.Standing, len(fresh))
	err := forEach(ctx, len(fresh), func(ctx context.Context, i int) (err error) {
		standings[i], err = s.check(ctx, fresh[i])
		if err == nil && standings[i] != nil {
			err = errStanding
		}
		return err
	})
	for i, st := range standings {
		if st == nil {
			continue
		}
		out := make([]driver.Standing, len(all))
		for j := range all {
			out[j].Ahead = -1
			if all[j] == fresh[i] {
				out[j] = *st
			}
		}
		return out, nil
	}
	return nil, err
}

// check reads the line of one claim where that is needed, and returns a standing where the
// claim is not to be inserted.
func (s *session) check(ctx context.Context, a *entering) (st *driver.Standing, err error) {
	s.mu.Lock()
	mayExist := a.state.mayExist
	s.mu.Unlock()
	if mayExist {
		st, err = s.findOwn(ctx, a)
	}
	if st == nil && err == nil && !a.inLine && !a.Queue {
		st, err = s.checkRoom(ctx, a)
	}
	return st, err
}

// findOwn looks for a claim's node after an Enter without an answer, and for those of its
// lower tries. A node of another ZooKeeper session is not used, even with the same ID: it
// will be gone with that session. A standing says that a higher try has come.
func (s *session) findOwn(ctx context.Context, a *entering) (*driver.Standing, error) {
	if err := s.barrier(ctx); err != nil {
		return nil, err
	}
	n, all, err := s.e.readOf(ctx, s.zs, a.Name, a.ID)
	if err != nil {
		return nil, err
	}
	a.lower = nil
	var own *nodeInfo
	for _, x := range all {
		switch {
		case x.Try > a.Try:
			return &driver.Standing{Gone: true}, nil
		case x.Try == a.Try && x.zkSession == s.zs.ID && own == nil:
			own = x
		case x.Try < a.Try || x.zkSession == s.zs.ID: // lower, or created twice
			a.lower = append(a.lower, n.path+"/"+x.name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.state.mayExist = len(a.lower) > 0 // they are in line until the Multi is carried out
	if own != nil {
		a.state.node, a.state.token, a.inLine = own.name, uint64(own.stat.Czxid), true
	}
	return nil, nil
}

// checkRoom says whether a claim that does not queue could be held now. If it could, it
// enters on the condition that no other has come since; if not, it returns the standing. A
// line that seems busy is read again from a server that has caught up.
func (s *session) checkRoom(ctx context.Context, a *entering) (*driver.Standing, error) {
	for synced := false; ; synced = true {
		if synced {
			if err := s.sync(ctx, a.Name); err != nil {
				return nil, err
			}
		}
		n, err := s.e.read(ctx, s.zs, a.Name)
		if err != nil {
			return nil, err
		}
		n.nodes = slices.DeleteFunc(n.nodes, func(x node) bool { return slices.Contains(a.lower, n.path+"/"+x.name) })
		n.nodes = append(n.nodes, candidate(a.Claim))
		last := len(n.nodes) - 1
		p := n.place(last)
		if p.held && !n.limitConflicts(last) {
			a.version, a.container, a.creations = n.version, n.container, n.creations
			return nil, nil
		}
		if !synced {
			continue
		}
		if n.limitConflicts(last) {
			return nil, fmt.Errorf("lock %q: %w", a.Name, driver.ErrLimit)
		}
		return s.busy(ctx, a, n, p)
	}
}

// candidate is a claim at the end of a line that it has not entered.
func candidate(c driver.Claim) node {
	if c.Exclusive() {
		return node{name: " ", need: 1, limit: 1}
	}
	return node{name: " ", need: c.Need, limit: c.Limit}
}

// busy is the standing of a claim that found the name taken.
func (s *session) busy(ctx context.Context, a *entering, n *line, p placement) (*driver.Standing, error) {
	head, err := fetch(ctx, s.zs, n.path, n.nodes[0])
	if err != nil {
		return nil, err
	}
	st := &driver.Standing{Ahead: p.ahead, Pause: s.pause()}
	if head != nil && !head.foreign {
		st.Holder = holderEntry(a.Name, head.nodeData, head.stat)
	}
	return st, nil
}

// sync has the connected server catch up with its leader. The leader itself may be a moment
// behind its followers, which is recent enough for a claim that does not queue.
func (s *session) sync(ctx context.Context, name string) error {
	return s.zs.Call(ctx, func(c *zk.Conn) error {
		_, err := c.Sync(s.e.linePath(name))
		return err
	})
}
