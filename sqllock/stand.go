package sqllock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
)

// stand puts an exclusive claim in a line behind somebody who holds, where the dialect
// can do so in less than the queueing flight. It reports whether it has: nothing has
// happened otherwise.
func (s *session) stand(ctx context.Context, c driver.Claim, a *Args) (st driver.Standing, stands bool, err error) {
	q := s.e.q
	if q.stand.Text == "" || !c.Exclusive() || !c.Queue || c.Try > 1 {
		return driver.Standing{}, false, nil
	}
	l := look{name: c.Name}
	f := Flight{Steps: []Step{
		{Query: q.lock, Args: a, Locks: true},
		{Query: q.stand, Args: a, Row: func(Row) error { stands = true; return nil }},
		{Query: q.standing, Args: a, Row: l.scan},
	}}
	err = s.cross(ctx, []*Args{a}, func(ctx context.Context) error { return s.e.d.Store.Run(ctx, &f) })
	if err != nil || f.Missing || !stands {
		return driver.Standing{}, false, err
	}
	all, err := s.answer([]driver.Claim{c}, []look{l}, false)
	if err != nil {
		return driver.Standing{}, false, err
	}
	return all[0], true, nil
}
