package zklock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// recheckInterval is how long watches that do not fire are trusted. ZooKeeper loses no
// event of a session; a client that loses one finds out after this time.
const recheckInterval = time.Minute

// Await waits for the watches that Enter has set. Neither the wait nor a turn that the
// events show costs a request.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	timer := time.NewTimer(s.recheck)
	defer timer.Stop()
	for {
		cs, w := s.waitStateOf(c)
		if cs == nil {
			return driver.Standing{Gone: true}, nil
		}
		if w == nil {
			st, err := s.refresh(ctx, cs)
			if st.Gone {
				s.forget(cs)
			}
			if err != nil || st.Held || st.Gone {
				return st, err
			}
			continue
		}
		timedOut, err := s.waitForEvent(ctx, w, timer)
		held := false
		switch {
		case err != nil:
		case timedOut:
			err = s.recheckBlockers(ctx, cs, w)
			timer.Reset(s.recheck)
		case w.group != nil:
			held, _, err = s.advanceGroup(ctx, cs, w)
		default:
			held = s.holdByEvent(cs, w)
		}
		if err != nil {
			return driver.Standing{}, err
		}
		if held {
			return s.heldStanding(cs), nil
		}
	}
}

// recheckBlockers has a claim read its line unless all its blockers are as they were when
// their watches were set.
func (s *session) recheckBlockers(ctx context.Context, cs *claimState, w *waitState) error {
	for _, watch := range w.blockers {
		var exists bool
		var stat *zk.Stat
		err := s.zs.Call(ctx, func(c *zk.Conn) (err error) {
			exists, stat, err = c.Exists(watch.Key.Path)
			return err
		})
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != watch.Stat.Czxid || stat.Cversion != watch.Stat.Cversion {
			s.clearWaiting(cs, w)
			return nil
		}
	}
	return nil
}

// waitStateOf returns the state of a claim that is in line, and what it waits for.
func (s *session) waitStateOf(c driver.Claim) (*claimState, *waitState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := s.claims[c.ID]
	if cs == nil || cs.claim.Try != c.Try || cs.node == "" {
		return nil, nil
	}
	return cs, cs.waiting
}

// waitForEvent returns when a watch has fired or the timer has.
func (s *session) waitForEvent(ctx context.Context, w *waitState, timer *time.Timer) (timedOut bool, err error) {
	fired := make(chan struct{}, 1)
	defer s.zs.Notify(fired, append([]*zkstore.Watch{w.evictWatch}, w.blockers...))()
	select {
	case <-fired:
	case <-timer.C:
		timedOut = true
	case <-s.ctx.Done():
		return false, driver.ErrGone
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return timedOut, s.begin(ctx)
}

// holdByEvent reports whether the event alone says that the claim holds: the only claim
// ahead of it is gone, or the exclusive one right ahead has left from a hold, and no claim
// of this ZooKeeper session had been evicted by then. The evict watch is looked at last:
// events arrive in the order of their causes.
func (s *session) holdByEvent(cs *claimState, w *waitState) bool {
	var cause zk.EventType
	if len(w.blockers) == 1 {
		cause = w.blockers[0].Cause()
	}
	evicted := w.evictWatch.HasFired()
	s.mu.Lock()
	defer s.mu.Unlock()
	if cs.waiting == w {
		cs.waiting = nil // it holds, or must read its line
	}
	if evicted || !(cause == zk.EventNodeDeleted && w.sole || cause == zk.EventNodeDataChanged && w.adjacent) {
		return false
	}
	cs.held, cs.heldUnverified, cs.ahead = true, cause == zk.EventNodeDataChanged, 0
	return true
}
