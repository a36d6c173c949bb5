package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// refresh reads the line and returns the standing of a claim. Where it waits, its watches
// are set before refresh returns, each on a node that was still there.
func (s *session) refresh(ctx context.Context, cs *claimState) (driver.Standing, error) {
	s.mu.Lock()
	name, own, limitChecked := cs.claim.Name, cs.node, cs.limitChecked
	s.mu.Unlock()
	for {
		evictWatch, err := s.watchEvictNode(ctx)
		if err != nil {
			return driver.Standing{}, err
		}
		n, err := s.lines.Do(ctx, name, func(ctx context.Context) (*line, error) { return s.e.read(ctx, s.zs, name) })
		if err != nil {
			return driver.Standing{}, err
		}
		i := n.index(own)
		if i < 0 {
			return driver.Standing{Gone: true}, nil
		}
		if !limitChecked && n.limitConflicts(i) {
			return driver.Standing{}, fmt.Errorf("lock %q: %w", name, driver.ErrLimit)
		}
		p := n.place(i)
		s.mu.Lock()
		if cs.node != own { // it has left, or entered anew
			s.mu.Unlock()
			return driver.Standing{Gone: true}, nil
		}
		cs.limitChecked, cs.heldUnverified, cs.held, cs.ahead, cs.waiting = true, false, p.held, p.ahead, nil
		cs.hasWaited = cs.hasWaited || p.ahead > 0
		s.mu.Unlock()
		if p.held {
			return s.heldStanding(cs), nil
		}
		var st driver.Standing
		known := true
		if p.group && !p.wholeLine {
			st, known, err = s.watchGroup(ctx, cs, evictWatch, n.path, p)
		} else {
			st, err = s.watchBlocker(ctx, cs, evictWatch, n, p)
		}
		if !known || errors.Is(err, zk.ErrNoNode) {
			continue // a blocker has just gone
		}
		return st, err
	}
}

// watchBlocker sets the watch of a waiting claim on the claim that blocks it, or on the
// whole line. ErrNoNode says that the line must be read again.
func (s *session) watchBlocker(ctx context.Context, cs *claimState, evictWatch *zkstore.Watch, n *line, p placement) (driver.Standing, error) {
	key := zkstore.WatchKey{Path: n.path, Kind: zkstore.OnChildren}
	if !p.wholeLine {
		key = zkstore.WatchKey{Path: n.path + "/" + p.blockers[0].name}
	}
	w, err := s.zs.Watch(ctx, key)
	if err != nil {
		return driver.Standing{}, err
	}
	if p.wholeLine && w.Stat.Cversion != n.changes {
		return driver.Standing{}, zk.ErrNoNode // it has changed since it was read
	}
	return s.setWaiting(cs, &waitState{
		evictWatch: evictWatch, blockers: []*zkstore.Watch{w},
		sole: p.ahead == 1 && !p.wholeLine, adjacent: p.adjacent,
	}, p.ahead), nil
}
