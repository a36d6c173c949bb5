package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Beat is one write for the life of all claims. That each is still in its line is
// known by a watch on its node, set by the first beat that is asked for it: the
// answer to the write comes after the events of everything that happened before.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	sent := now()
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.witness(ctx); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.l.cut() // the server is stuck, or cut off from its leader: another may not be
		}
		return err
	}
	valid := min(s.ttl, s.until().sub(sent))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrGone
	}
	s.dog.Reset(s.ttl)
	spots := make([]*spot, len(live))
	for i, c := range live {
		if sp := s.spots[c.ID]; sp != nil && sp.claim.Try == c.Try && sp.node != "" {
			spots[i] = sp
		} else {
			out[i] = driver.Standing{Gone: true}
		}
	}
	s.mu.Unlock()
	if valid <= 0 {
		return unreachable(errors.New("the answer came too late"))
	}
	var check []int
	for i, sp := range spots {
		switch {
		case sp == nil:
		case s.watched(sp):
			out[i] = s.alive(sp)
			out[i].Valid = valid
		default:
			check = append(check, i)
		}
	}
	return each(ctx, len(check), func(ctx context.Context, k int) error {
		i := check[k]
		st, err := s.verify(ctx, spots[i])
		if err != nil {
			return err
		}
		if !st.Gone {
			st.Valid = valid
		}
		out[i] = st
		return nil
	})
}

// watched reports whether a claim's node is there for all that was heard, and
// nothing else is to be looked at.
func (s *session) watched(sp *spot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sp.own != nil && !sp.own.over() && !sp.hinted
}

// verify asks for a claim's node, and sets the watch by which later beats know.
func (s *session) verify(ctx context.Context, sp *spot) (driver.Standing, error) {
	s.mu.Lock()
	path, hinted := s.e.linePath(sp.claim.Name)+"/"+sp.node, sp.hinted
	s.mu.Unlock()
	own, err := s.l.watch(ctx, s.f, watchKey{path: path})
	if errors.Is(err, zk.ErrNoNode) {
		s.forget(sp)
		return driver.Standing{Gone: true}, nil
	}
	if err != nil {
		return driver.Standing{}, err
	}
	s.mu.Lock()
	sp.own = own
	s.mu.Unlock()
	if hinted {
		// It holds because a node was written to. If that was somebody else, and not
		// its owner leaving, this is where it comes out.
		st, err := s.look(ctx, sp)
		if err != nil || !st.Held {
			return driver.Standing{Gone: err == nil}, err
		}
	}
	return s.alive(sp), nil
}

// alive is the answer for a claim that is in its line.
func (s *session) alive(sp *spot) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := driver.Standing{Held: sp.held, Ahead: -1}
	if sp.held {
		st.Token, st.Ahead = sp.token, sp.ahead
	}
	return st
}
