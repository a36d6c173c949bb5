package kvline

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// leaveWithdrawn leaves the lines of claims that were entered by others after they had left.
func (s *session) leaveWithdrawn(ctx context.Context) {
	var cs []driver.Claim
	for _, c := range s.withdrawn.lately() {
		if _, there := s.claims.Current(c.ID); !there {
			cs = append(cs, c)
		}
	}
	names := byName(cs)
	each(len(names), func(n int) {
		l, _, err := s.e.fetch(ctx, cs[names[n][0]].Name)
		for _, i := range names[n] {
			if err == nil && l.find(cs[i].ID) >= 0 {
				_ = s.leave(ctx, cs[i]) // or with the next beat
			}
		}
	})
}

// leaveStray leaves the line of a claim that is in it although it has left.
func (e *Engine) leaveStray(s *session, c driver.Claim) {
	_ = e.sessions.Go(func(ctx context.Context) {
		if err := s.leave(ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
			s.withdrawn.add(c)
		}
	})
}
