package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A view is what a claim that waits has seen, and the watches that tell it when
// to look again. Those ahead of it can only become fewer, so a view stays true
// until one of the watches fires.
type view struct {
	desk *watch
	wait []*watch
	sole bool // the one in wait is all there is ahead
	next bool // the one in wait is right ahead, and exclusive
	sum  *sum // what is in wait, where it is that together; nil: it is one, or the line
}

// look reads the line and says how a claim of ours stands. Where it waits, the
// watches are set before it returns, and each on a node that was still there.
func (s *session) look(ctx context.Context, sp *spot) (driver.Standing, error) {
	s.mu.Lock()
	name, node, judged := sp.claim.Name, sp.node, sp.judged
	s.mu.Unlock()
	for {
		desk, err := s.e.desk(ctx, s.l, s.f)
		if err != nil {
			return driver.Standing{}, err
		}
		n, err := s.e.read(ctx, s.l, s.f, name)
		if err != nil {
			return driver.Standing{}, err
		}
		i := n.at(node)
		if i < 0 {
			return driver.Standing{Gone: true}, nil
		}
		if !judged && n.clashes(i) {
			return driver.Standing{}, fmt.Errorf("lock %q: %w", name, driver.ErrLimit)
		}
		v := n.judge(i)
		s.mu.Lock()
		if sp.node != node { // it has left, or entered anew
			s.mu.Unlock()
			return driver.Standing{Gone: true}, nil
		}
		sp.judged, sp.hinted, sp.held, sp.ahead, sp.view = true, false, v.held, v.ahead, nil
		sp.waited = sp.waited || v.ahead > 0
		s.mu.Unlock()
		if v.held {
			return s.held(sp), nil
		}
		var st driver.Standing
		known := true
		if v.sum && !v.whole {
			st, known, err = s.setSum(ctx, sp, desk, n.path, v)
		} else {
			st, err = s.set(ctx, sp, desk, n, v)
		}
		if !known || errors.Is(err, zk.ErrNoNode) {
			continue // one of them has just gone
		}
		return st, err
	}
}

// set sets the watches of a claim that waits on what is in its way.
func (s *session) set(ctx context.Context, sp *spot, desk *watch, n *line, v verdict) (driver.Standing, error) {
	keys := []watchKey{{n.path, onChildren}}
	if !v.whole {
		keys = keys[:0]
		for _, c := range v.wait {
			keys = append(keys, watchKey{path: n.path + "/" + c.node})
		}
	}
	watches := make([]*watch, len(keys))
	err := each(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		watches[i], err = s.l.watch(ctx, s.f, keys[i])
		return err
	})
	if err != nil {
		return driver.Standing{}, err
	}
	if v.whole && watches[0].stat.Cversion != n.changes {
		return driver.Standing{}, zk.ErrNoNode // it has changed since it was read
	}
	return s.waits(sp, &view{desk: desk, wait: watches, sole: v.ahead == 1 && !v.whole, next: v.next}, v.ahead), nil
}

// waits gives a claim its view, and is its standing.
func (s *session) waits(sp *spot, v *view, ahead int) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp.view, sp.ahead, sp.waited = v, ahead, true
	st := driver.Standing{Ahead: ahead, Pause: s.pause()}
	if v.sole && v.sum == nil {
		if d, ok := parseData(v.wait[0].data); ok {
			st.Holder = entry(sp.claim.Name, d, v.wait[0].stat)
		}
	}
	return st
}

// held is the standing of a claim that holds.
func (s *session) held(sp *spot) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Standing{Held: true, Token: sp.token, Ahead: sp.ahead}
}

// pause is how long a missed notice costs.
func (s *session) pause() time.Duration { return min(max(s.ttl, time.Second), 10*time.Second) }

// entry shows the claim at the head of a line, which holds.
func entry(name string, d details, stat *zk.Stat) *driver.Entry {
	e := driver.Entry{Claim: d.Claim, Session: d.session, Held: true, Fence: uint64(stat.Czxid)}
	e.Name = name
	return &e
}

// sync has the server at hand catch up with its leader. The leader itself may still
// be a moment behind its followers, which for a try is soon enough.
func (s *session) sync(ctx context.Context, name string) error {
	return s.l.do(ctx, s.f, func(c *zk.Conn) error {
		_, err := c.Sync(s.e.linePath(name))
		return err
	})
}

// catchUp has the server at hand catch up for certain; see that of Engine.
func (s *session) catchUp(ctx context.Context) error {
	return s.l.do(ctx, s.f, func(c *zk.Conn) error {
		_, err := c.Set(s.e.lines, nil, -1)
		return err
	})
}

func (sp *spot) isHeld(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sp.held
}

func (sp *spot) isUnsure(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sp.unsure
}

// forget takes a spot out of the session: nothing of it is in a line.
func (s *session) forget(sp *spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spots[sp.claim.ID] == sp {
		delete(s.spots, sp.claim.ID)
	}
}
