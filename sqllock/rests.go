package sqllock

import (
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// A rest is what a beat learns of a line: for how long nobody in it need look, and
// who holds it alone.
type rest struct {
	left   time.Duration
	holder string
}

// rests are by the names as the store knows them.
type rests map[string]rest

// steps asks for the lines in which claims of ours were seen to wait: down to the last
// of these, since who is behind it is in nobody's way here.
func (told *rests) steps(s *session, all []*pulse) []Step {
	last := map[string]*Args{}
	for _, p := range all {
		if !p.spot.waits || s.e.q.rests.Text == "" {
			continue
		}
		p.a.set(Token, p.spot.token)
		if a := last[p.a.text[Name]]; a == nil || a.Int(Token) < p.spot.token {
			last[p.a.text[Name]] = p.a
		}
	}
	if len(last) == 0 {
		return nil
	}
	*told = rests{}
	a := &Args{}
	for _, one := range last {
		a.list = append(a.list, one)
	}
	return []Step{{Query: s.e.q.rests, Args: a, Row: func(r Row) error {
		var name, holder string
		var left int64
		err := r.Scan(&name, &left, &holder)
		(*told)[name] = rest{micros(left), holder}
		return err
	}}}
}

// learn tells those who wait for how long they need not look. A line in which nobody
// holds or somebody has ended is mostly so for a moment, until the next is let in; but
// whoever should do that may have died, or a guard may keep it from being done.
func (told rests) learn(s *session, all []*pulse, sent time.Time) {
	if len(told) == 0 {
		return
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for _, p := range all {
		w := s.e.waiters[p.c.ID]
		r, known := told[p.a.text[Name]]
		if w == nil || !known || !p.inLine || p.held {
			continue
		}
		if r.left > 0 && w.plan.Beaten(sent, r.left, r.holder, s.ttl) || r.left == 0 && w.plan.Suspect(s.ttl) {
			w.hasten()
		}
	}
}

// plans has a waiter look again as a look has told, and says for how long not.
func (e *Engine) plans(w *waiter, p driverkit.Recheck) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.plan = p
	return p.Left()
}

// left is for how long a waiter need not look, as is known by now.
func (e *Engine) left(w *waiter) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return w.plan.Left()
}
