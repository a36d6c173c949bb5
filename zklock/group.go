package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// maxMisses is how many spare nodes may be found gone, one by one, before reading the line
// is cheaper.
const maxMisses = 8

// watchGroup sets the watches on a claim's blockers. known is false where the line must be
// read again.
func (s *session) watchGroup(ctx context.Context, cs *claimState, evictWatch *zkstore.Watch, path string, p placement) (st driver.Standing, known bool, err error) {
	watches := make([]*zkstore.Watch, len(p.blockers))
	err = forEach(ctx, len(p.blockers), func(ctx context.Context, i int) (err error) {
		watches[i], err = s.zs.Watch(ctx, zkstore.WatchKey{Path: path + "/" + p.blockers[i].name})
		if errors.Is(err, zk.ErrNoNode) {
			return nil // it has just gone
		}
		return err
	})
	if err != nil {
		return driver.Standing{}, false, err
	}
	w := &waitState{evictWatch: evictWatch, group: &blockerGroup{path: path, spare: p.spare, spareComplete: p.spareComplete}}
	for i, watch := range watches {
		if watch != nil {
			w.blockers, w.group.nodes = append(w.blockers, watch), append(w.group.nodes, p.blockers[i])
		}
	}
	st = s.setWaiting(cs, w, p.ahead)
	held, known, err := s.advanceGroup(ctx, cs, w)
	if held {
		st = s.heldStanding(cs)
	}
	return st, known, err
}

// advanceGroup takes out what has gone of a group, and watches spare nodes instead until
// there is no room again. It reports whether the claim holds now; known is false where the
// line must be read, because the watches do not tell. The departures they tell of happened
// while the claim was in its line: an earlier eviction would have fired the evict watch
// first.
func (s *session) advanceGroup(ctx context.Context, cs *claimState, w *waitState) (held, known bool, err error) {
	s.mu.Lock()
	need, limit := int64(cs.claim.Need), int64(cs.claim.Limit)
	s.mu.Unlock()
	g := w.group
	for misses := 0; misses < maxMisses; {
		used, told := w.used()
		switch {
		case told && need+used > limit:
			return false, true, nil
		case told && len(g.spare) == 0 && g.spareComplete:
			return s.holdByGroup(cs, w), true, nil
		case !told, len(g.spare) == 0:
			s.clearWaiting(cs, w)
			return false, false, nil
		}
		next := g.spare[0]
		watch, err := s.zs.Watch(ctx, zkstore.WatchKey{Path: g.path + "/" + next.name})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			misses++
		case err != nil:
			s.clearWaiting(cs, w)
			return false, false, err
		default:
			w.blockers, g.nodes = append(w.blockers, watch), append(g.nodes, next)
		}
		g.spare = g.spare[1:]
	}
	s.clearWaiting(cs, w)
	return false, false, nil
}

// holdByGroup notes that a claim holds: the claims that are left ahead leave it room. It
// reports false if the claim has left meanwhile, or entered anew.
func (s *session) holdByGroup(cs *claimState, w *waitState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs.waiting != w {
		return false
	}
	cs.waiting, cs.held, cs.heldUnverified, cs.ahead = nil, true, false, len(w.blockers)
	return true
}
