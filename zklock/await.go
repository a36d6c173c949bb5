package zklock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// trust is how long a watch is trusted that does not fire. ZooKeeper loses no event
// of a session; should a client do so, this is what it costs.
const trust = time.Minute

// Await waits for the watches that Enter has set. Where these say all, the turn
// costs no question, and nor does the wait.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	timer := time.NewTimer(s.trust)
	defer timer.Stop()
	for {
		sp, v := s.viewOf(c)
		if sp == nil {
			return driver.Standing{Gone: true}, nil
		}
		if v == nil {
			st, err := s.look(ctx, sp)
			if st.Gone {
				s.forget(sp)
			}
			if err != nil || st.Held || st.Gone {
				return st, err
			}
			continue
		}
		over, err := s.wait(ctx, v, timer)
		held := false
		switch {
		case err != nil:
		case over:
			var same bool
			if same, err = s.stands(ctx, v); err == nil && !same {
				s.unsee(sp, v)
			}
			timer.Reset(s.trust)
		case v.sum != nil:
			held, _, err = s.advance(ctx, sp, v)
		default:
			held = s.granted(sp, v)
		}
		if err != nil {
			return driver.Standing{}, err
		}
		if held {
			return s.held(sp), nil
		}
	}
}

// stands reports whether all that a claim waits for is as it was when the watches
// were set, although none has fired.
func (s *session) stands(ctx context.Context, v *view) (bool, error) {
	for _, w := range v.wait {
		var there bool
		var stat *zk.Stat
		err := s.l.do(ctx, s.f, func(c *zk.Conn) (err error) {
			there, stat, err = c.Exists(w.key.path)
			return err
		})
		if err != nil || !there || stat.Czxid != w.stat.Czxid || stat.Cversion != w.stat.Cversion {
			return false, err
		}
	}
	return true, nil
}

// viewOf returns the spot of a claim and its view, if it has one.
func (s *session) viewOf(c driver.Claim) (*spot, *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spots[c.ID]
	if sp == nil || sp.claim.Try != c.Try || sp.node == "" {
		return nil, nil
	}
	return sp, sp.view
}

// wait returns when a watch has fired or, over, when the pause is.
func (s *session) wait(ctx context.Context, v *view, timer *time.Timer) (over bool, err error) {
	turn := make(chan struct{}, 1)
	watches := append([]*watch{v.desk}, v.wait...)
	s.l.mu.Lock()
	for _, w := range watches {
		w.tellLocked(turn)
	}
	s.l.mu.Unlock()
	defer func() {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		for _, w := range watches {
			w.untellLocked(turn)
		}
	}()
	select {
	case <-turn:
	case <-timer.C:
		over = true
	case <-s.lost:
		return false, driver.ErrGone
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return over, s.begin(ctx)
}

// granted reports whether the watches of a view alone say that the claim holds:
// all there was ahead of it is gone, or the exclusive one right ahead of it has
// left from a hold, and nobody of this life had been evicted by then. Events come
// in the order in which things happened.
func (s *session) granted(sp *spot, v *view) bool {
	s.l.mu.Lock()
	fired := v.desk.over()
	var why zk.EventType
	if len(v.wait) == 1 && v.wait[0].over() {
		why = v.wait[0].why
	}
	s.l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp.view == v {
		sp.view = nil // it must look, or holds
	}
	if fired || !(why == zk.EventNodeDeleted && v.sole || why == zk.EventNodeDataChanged && v.next) {
		return false
	}
	sp.held, sp.hinted, sp.ahead = true, why == zk.EventNodeDataChanged, 0
	return true
}
