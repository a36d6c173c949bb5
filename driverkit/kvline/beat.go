package kvline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Beat prolongs the claims with one write for each name.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	byName := map[string][]int{}
	var names []string
	for i, c := range live {
		if byName[c.Name] == nil {
			names = append(names, c.Name)
		}
		byName[c.Name] = append(byName[c.Name], i)
	}
	errs := make([]error, len(names))
	each(len(names), func(n int) { errs[n] = s.beat(ctx, names[n], byName[names[n]], live, out) })
	return driver.Join(errs...)
}

// beat prolongs the claims of one name.
func (s *session) beat(ctx context.Context, name string, which []int, live []driver.Claim, out []driver.Standing) error {
	trust := true
	for _, i := range which {
		trust = trust && s.fresh(live[i])
	}
	sent := present()
	l, now, err := s.e.update(ctx, name, trust, func(l *line, _ time.Time) error {
		var err error = absent{}
		for _, i := range which {
			at, token := l.find(live[i].ID), s.token(live[i])
			if at < 0 || (*l)[at].Try != live[i].Try {
				continue
			}
			err = nil // the line is written, for this one and for all
			switch {
			case token != 0 && token != (*l)[at].Token: // entered again by a write that arrived late
				l.remove(at)
			default:
				(*l)[at].Beat = 0
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, absent{}) {
		return err
	}
	for _, i := range which {
		c := live[i]
		at := l.find(c.ID)
		if at < 0 || l[at].Try != c.Try {
			out[i] = driver.Standing{Gone: true}
			s.claims.End(c)
			continue
		}
		s.renewed(c, l[at].Token, sent)
		out[i] = l.standing(at, name, now)
		out[i].Valid = s.ttl
		switch p := s.claims.Find(c.ID, c.Try); {
		case p == nil:
		case out[i].Held: // if the notice of its grant was missed, this ends its Await
			p.Waiter.Wake()
		default:
			p.Waiter.Beaten(sent.timer, out[i].Pause, driverkit.Blocker(out[i]), time.Second)
		}
	}
	return nil
}
