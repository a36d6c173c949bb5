package zklock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A sum is what a claim waits for that no single one keeps out. Some of the nearest
// ahead of it are watched, as many as leave it no room. When one of them goes, the
// next further ahead takes its place, and the line is not read again: of many who
// wait for the same, each would read all of it at every departure.
type sum struct {
	path  string
	wait  []child // what the view's watches are on, in their order
	spare []child // further ahead, the nearest first
	all   bool    // spare has all of them
}

// maxMisses is how many of spare may be found gone, one by one, before it is
// cheaper to read the line.
const maxMisses = 8

// setSum sets the watches on what keeps a claim out together. known is false where
// the line has to be read again.
func (s *session) setSum(ctx context.Context, sp *spot, desk *watch, path string, v verdict) (st driver.Standing, known bool, err error) {
	watches := make([]*watch, len(v.wait))
	err = each(ctx, len(v.wait), func(ctx context.Context, i int) (err error) {
		watches[i], err = s.l.watch(ctx, s.f, watchKey{path: path + "/" + v.wait[i].node})
		if errors.Is(err, zk.ErrNoNode) {
			return nil // it has just gone
		}
		return err
	})
	if err != nil {
		return driver.Standing{}, false, err
	}
	w := &view{desk: desk, sum: &sum{path: path, spare: v.spare, all: v.all}}
	for i, there := range watches {
		if there != nil {
			w.wait, w.sum.wait = append(w.wait, there), append(w.sum.wait, v.wait[i])
		}
	}
	st = s.waits(sp, w, v.ahead)
	held, known, err := s.advance(ctx, sp, w)
	if held {
		st = s.held(sp)
	}
	return st, known, err
}

// advance takes in what has gone of a sum, and watches others instead until there
// is no room again. It reports whether the claim holds now; known is false where
// the watches do not tell, and the line has to be read. What they tell happened
// while the claim was in its line: had it been evicted before, its desk would have
// told first.
func (s *session) advance(ctx context.Context, sp *spot, v *view) (held, known bool, err error) {
	s.mu.Lock()
	need, limit := int64(sp.claim.Need), int64(sp.claim.Limit)
	s.mu.Unlock()
	m := v.sum
	for misses := 0; misses < maxMisses; {
		used, told := s.present(v)
		switch {
		case !told:
			s.unsee(sp, v)
			return false, false, nil
		case need+used > limit:
			return false, true, nil
		case len(m.spare) == 0 && m.all:
			return s.fits(sp, v), true, nil
		case len(m.spare) == 0:
			s.unsee(sp, v)
			return false, false, nil
		}
		next := m.spare[0]
		w, err := s.l.watch(ctx, s.f, watchKey{path: m.path + "/" + next.node})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			misses++
		case err != nil:
			s.unsee(sp, v)
			return false, false, err
		default:
			v.wait, m.wait = append(v.wait, w), append(m.wait, next)
		}
		m.spare = m.spare[1:]
	}
	s.unsee(sp, v)
	return false, false, nil
}

// present drops the watches on what has gone, and returns how much the others need.
// told is false where a watch has fired for another reason, or the desk's has.
func (s *session) present(v *view) (used int64, told bool) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if v.desk.over() {
		return 0, false
	}
	m := v.sum
	for i := len(v.wait) - 1; i >= 0; i-- {
		switch w := v.wait[i]; {
		case !w.over():
			used += int64(m.wait[i].need)
		case w.why == zk.EventNodeDeleted:
			v.wait, m.wait = slices.Delete(v.wait, i, i+1), slices.Delete(m.wait, i, i+1)
		default:
			return 0, false
		}
	}
	return used, true
}

// fits notes that a claim holds: of all that were ahead of it, what is left leaves
// it room. It reports whether that is so still.
func (s *session) fits(sp *spot, v *view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp.view != v {
		return false // it has left, or entered anew
	}
	sp.view, sp.held, sp.hinted, sp.ahead = nil, true, false, len(v.wait)
	return true
}

// unsee takes a view from a claim: it must look.
func (s *session) unsee(sp *spot, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp.view == v {
		sp.view = nil
	}
}
