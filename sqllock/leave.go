package sqllock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
)

// Leave gives back an exclusive hold in one statement, and lets in the next in
// a second flight only if somebody waits. Should the process die between the
// two, the line is found with nobody held at its head, and settled, by whoever
// looks next. A place in line goes through the queueing flight at once.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	guarded := s.guarded(c)
	err := s.depart(ctx, c)
	if err == nil && guarded {
		s.e.tellFirst(ctx, c.Name)
	}
	return err
}

func (s *session) depart(ctx context.Context, c driver.Claim) error {
	a := s.args(c)
	a.set(Upto, int64(c.Try))
	s.mu.Lock()
	waits := s.spots[c.ID].waits // or was let in since, which the flight finds
	s.mu.Unlock()
	if waits {
		done, err := s.e.exits.pass(ctx, a.text[Name])
		if err != nil {
			return err
		}
		defer done()
	}
	if s.e.d.Hold == nil {
		return s.departing(ctx, c, a, waits)
	}
	var left error
	if err := s.e.d.Hold(ctx, func(ctx context.Context) { left = s.departing(ctx, c, a, waits) }); err != nil {
		return err
	}
	return left
}

func (s *session) departing(ctx context.Context, c driver.Claim, a *Args, waits bool) error {
	if !waits && c.Exclusive() {
		ended, waiting, err := s.giveBack(ctx, a)
		if err != nil {
			return err
		}
		if ended {
			s.ended(c)
			if waiting > 0 {
				// It is given back; only those who wait would learn it later.
				_ = s.e.handOver(ctx, a.text[Name])
			} else {
				s.e.nudge(a.text[Name]) // for those who watch
			}
			return nil
		}
	}
	ended, err := s.quit(ctx, a, c.Exclusive())
	if err != nil {
		return err
	}
	s.ended(c)
	if !ended {
		return driver.ErrGone
	}
	return nil
}

func (s *session) giveBack(ctx context.Context, a *Args) (ended bool, waiting int64, err error) {
	f := Flight{Steps: []Step{{Query: s.e.q.release, Args: a, Row: func(r Row) error {
		ended = true
		return r.Scan(&waiting)
	}}}}
	err = s.e.d.Store.Run(ctx, &f)
	return ended, waiting, err
}

// quit ends a place in line or a shared hold and lets in whoever fits. An
// exclusive claim may have been let in since giveBack looked, so it is looked
// for in both places.
func (s *session) quit(ctx context.Context, a *Args, exclusive bool) (ended bool, err error) {
	q := s.e.q
	qs := []*Query{q.lock, q.expire, q.drop}
	if exclusive {
		qs = append(qs, q.end)
	}
	var told []string
	steps := flight(a, &told, append(qs, q.prune, q.tally, q.front, q.promote, q.vacate, q.admit, q.count)...)
	for i := range steps {
		if n := steps[i].Query.Name; n == "drop" || n == "end" {
			steps[i].Row = func(Row) error { ended = true; return nil }
		}
	}
	err = s.e.fly(ctx, &Flight{Steps: steps}, &told)
	return ended, err
}
