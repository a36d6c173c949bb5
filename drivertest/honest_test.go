package drivertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// honest are engines that can do less and say so: the suite must pass on them.
var honest = []mutant{
	{"all that memlock can", 0, func(*bent) {}},
	{"no push", 0, func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.Push = false; return f }
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return driver.Standing{}, ctx.Err()
			}
			look, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			st, err := s.Session.Await(look, c, last)
			if err != nil && ctx.Err() == nil && look.Err() != nil {
				return driver.Standing{Ahead: -1, Pause: 10 * time.Millisecond}, nil
			}
			return st, err
		}
		b.enter = func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Pause = min(st.Pause, 10*time.Millisecond)
			return st, err
		}
	}},
	{"no line", 0, func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.Queue, f.Push = false, false; return f }
		refuse(b, "a place in line", func(c driver.Claim) bool { return c.Queue })
		b.await = func(ctx context.Context, _ *bentSession, _ driver.Claim, _ driver.Standing) (driver.Standing, error) {
			select { // the hint of an engine that knows nothing
			case <-time.After(5 * time.Millisecond):
				return driver.Standing{Ahead: -1}, nil
			case <-ctx.Done():
				return driver.Standing{}, ctx.Err()
			}
		}
	}},
	{"no readers", 0, func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.Shared = false; return f }
		refuse(b, "a reader", func(c driver.Claim) bool { return c.Limit == driver.All && !c.Exclusive() })
	}},
	{"no semaphores", 0, func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.Count = false; return f }
		refuse(b, "a permit", func(c driver.Claim) bool { return c.Limit > 1 && c.Limit < driver.All })
	}},
	{"no tokens", 0, func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.Fencing = driver.None; return f }
		mapTokens(b, func(uint64) uint64 { return 0 })
	}},
	{"a session's life is all", 0, func(b *bent) {
		b.enter = func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Valid = 0 // the promise is Open's and Beat's; that this engine keeps more is its own affair
			return st, err
		}
	}},
}

// refuse makes b refuse the claims that it has no feature for.
func refuse(b *bent, what string, absent func(driver.Claim) bool) {
	b.enter = func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error) {
		if absent(c) {
			return driver.Standing{}, fmt.Errorf("%s: %w", what, driver.ErrUnsupported)
		}
		return s.Session.Enter(ctx, c)
	}
	b.enterAll = func(ctx context.Context, s *bentSession, cs []driver.Claim) ([]driver.Standing, error) {
		for _, c := range cs {
			if absent(c) {
				return nil, fmt.Errorf("%s: %w", what, driver.ErrUnsupported)
			}
		}
		return s.Session.(driver.Multi).EnterAll(ctx, cs)
	}
}
