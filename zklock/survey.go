package zklock

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// survey looks at the lines before anybody enters, where that is needed: for a
// claim of which something may stand there already, and for one that does not
// queue. Standings say that nobody is to enter.
func (s *session) survey(ctx context.Context, all, fresh []*arrival) ([]driver.Standing, error) {
	lines := map[string]*line{}
	for _, a := range fresh {
		var st *driver.Standing
		var err error
		if a.sp.isUnsure(s) {
			st, err = s.find(ctx, a, lines)
		}
		if st == nil && err == nil && !a.known && !a.Queue {
			st, err = s.try(ctx, a, lines)
		}
		if err != nil {
			return nil, err
		}
		if st == nil {
			continue
		}
		out := make([]driver.Standing, len(all))
		for i := range all {
			out[i].Ahead = -1
			if all[i] == a {
				out[i] = *st
			}
		}
		return out, nil
	}
	return nil, nil
}

// find looks for a claim's own node after an Enter without an answer, and for
// those of its lower tries. A node of another life is not ours to use, even with
// our ID: it will go. A standing says that a higher try has come.
func (s *session) find(ctx context.Context, a *arrival, lines map[string]*line) (*driver.Standing, error) {
	if err := s.witness(ctx); err != nil {
		return nil, err
	}
	n, all, err := s.e.readOf(ctx, s.l, s.f, a.Name, a.ID)
	if err != nil {
		return nil, err
	}
	lines[a.Name] = n
	a.lower = nil
	var mine *found
	for _, x := range all {
		switch {
		case x.Try > a.Try:
			return &driver.Standing{Gone: true}, nil
		case x.Try == a.Try && x.life == s.f.id && mine == nil:
			mine = x
		case x.Try < a.Try || x.life == s.f.id: // lower, or made twice
			a.lower = append(a.lower, n.path+"/"+x.node)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.sp.unsure = len(a.lower) > 0 // which stand there until its Multi is carried out
	if mine != nil {
		a.sp.node, a.sp.token, a.known = mine.node, uint64(mine.stat.Czxid), true
	}
	return nil, nil
}

// try says whether a claim that does not queue could be held now. If it could, it
// enters on the condition that nobody has come since; if not, that is its
// standing. A line that seems busy is looked at again with certainty.
func (s *session) try(ctx context.Context, a *arrival, lines map[string]*line) (*driver.Standing, error) {
	for certain := false; ; certain = true {
		n := lines[a.Name]
		if n == nil {
			var err error
			if certain {
				err = s.sync(ctx, a.Name)
			}
			if err == nil {
				n, err = s.e.read(ctx, s.l, s.f, a.Name)
			}
			if err != nil {
				return nil, err
			}
			lines[a.Name] = n
		}
		n.all = append(n.all, newcomer(a.Claim))
		last := len(n.all) - 1
		v := n.judge(last)
		if v.held && !n.clashes(last) {
			a.version, a.made, a.came = n.version, n.made, n.came
			n.version, n.came = n.version+1, n.came+2 // for a second claim of this call on the same name
			return nil, nil
		}
		if !certain {
			delete(lines, a.Name)
			continue
		}
		if n.clashes(last) {
			return nil, fmt.Errorf("lock %q: %w", a.Name, driver.ErrLimit)
		}
		return s.busy(ctx, a, n, v)
	}
}

// newcomer is a claim at the end of a line that it has not entered.
func newcomer(c driver.Claim) child {
	if c.Exclusive() {
		return child{node: " ", need: 1, limit: 1}
	}
	return child{node: " ", need: c.Need, limit: c.Limit}
}

// busy is the standing of a claim that found the name taken.
func (s *session) busy(ctx context.Context, a *arrival, n *line, v verdict) (*driver.Standing, error) {
	head, err := fetch(ctx, s.l, s.f, n.path, n.all[0])
	if err != nil {
		return nil, err
	}
	st := &driver.Standing{Ahead: v.ahead, Pause: s.pause()}
	if head != nil && !head.foreign {
		st.Holder = entry(a.Name, head.details, head.stat)
	}
	return st, nil
}
