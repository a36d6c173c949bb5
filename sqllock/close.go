package sqllock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// Close ends the session's claims, name by name.
func (s *session) Close(ctx context.Context) error {
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()
	return s.end(ctx)
}

// endChunk is how many holds are given back in one flight.
const endChunk = 100

// endHolds gives back exclusive holds for which nobody waits, which is nearly
// all there is to end, many a flight and in the order of their names. It returns
// the rest.
func (s *session) endHolds(ctx context.Context, all []driver.Claim) (rest []driver.Claim, err error) {
	for chunk := range slices.Chunk(all, endChunk) {
		if err := ctx.Err(); err != nil {
			return rest, err
		}
		f := Flight{}
		free := make([]bool, len(chunk))
		for i, c := range chunk {
			if !c.Exclusive() {
				continue
			}
			a := s.args(c)
			a.set(Upto, int64(c.Try))
			f.Steps = append(f.Steps, Step{Query: s.e.q.endFree, Args: a, Row: func(Row) error {
				free[i] = true
				return nil
			}})
		}
		if len(f.Steps) > 0 {
			if err := s.e.d.Store.Run(ctx, &f); err != nil {
				return append(rest, chunk...), err
			}
		}
		for i, c := range chunk {
			if free[i] {
				s.ended(c)
			} else {
				rest = append(rest, c)
			}
		}
	}
	return rest, nil
}

func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	left := slices.Collect(maps.Values(s.claims))
	under := slices.Collect(maps.Keys(s.crossings))
	s.mu.Unlock()
	defer s.awaitCrossings(ctx, under)
	slices.SortFunc(left, func(a, b driver.Claim) int { return strings.Compare(a.Name, b.Name) })
	var errs []error
	left, err := s.endHolds(ctx, left)
	errs = append(errs, err)
	for _, c := range left {
		if err := ctx.Err(); err != nil { // the rest expires
			return driver.Join(append(errs, err)...)
		}
		if err := s.depart(ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
			errs = append(errs, err)
			continue
		}
		s.e.wake(c.ID)
	}
	return driver.Join(errs...)
}
