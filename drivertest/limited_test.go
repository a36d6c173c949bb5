package drivertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// limitedEngines lack features and declare it: the suite must pass on them.
var limitedEngines = []testEngine{
	{"all that memlock can", 0, func(*overridden) {}},
	{"no push", 0, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Push = false; return f }
		engine.await = func(ctx context.Context, _ *overriddenSession, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return driver.Standing{}, ctx.Err()
			}
			for _, e := range engine.line(c.Name) {
				if e.ID == c.ID && e.Try == c.Try {
					return driver.Standing{Held: e.Held, Token: e.Fence, Ahead: -1, Pause: 10 * time.Millisecond}, nil
				}
			}
			return driver.Standing{Gone: true}, nil
		}
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Pause = min(st.Pause, 10*time.Millisecond)
			return st, err
		}
	}},
	{"no line", 0, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Queue, f.Push = false, false; return f }
		refuseClaims(engine, "a place in line", func(c driver.Claim) bool { return c.Queue })
		engine.await = func(ctx context.Context, _ *overriddenSession, _ driver.Claim, _ driver.Standing) (driver.Standing, error) {
			select { // without notices, Await only paces the retries
			case <-time.After(5 * time.Millisecond):
				return driver.Standing{Ahead: -1}, nil
			case <-ctx.Done():
				return driver.Standing{}, ctx.Err()
			}
		}
	}},
	{"no readers", 0, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Shared = false; return f }
		refuseClaims(engine, "a reader", func(c driver.Claim) bool { return c.Limit == driver.All && !c.Exclusive() })
	}},
	{"no semaphores", 0, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Count = false; return f }
		refuseClaims(engine, "a permit", func(c driver.Claim) bool { return c.Limit > 1 && c.Limit < driver.All })
	}},
	{"no tokens", 0, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Fencing = driver.None; return f }
		mapTokens(engine, func(uint64) uint64 { return 0 })
	}},
	{"a session's life is all", 0, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Valid = 0 // only Open and Beat promise time; memlock keeps the claim for longer, which is allowed
			return st, err
		}
	}},
}

// refuse makes the engine refuse claims that need an absent feature.
func refuseClaims(engine *overridden, what string, absent func(driver.Claim) bool) {
	engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
		if absent(c) {
			return driver.Standing{}, fmt.Errorf("%s: %w", what, driver.ErrUnsupported)
		}
		return s.Session.Enter(ctx, c)
	}
	engine.enterAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim) ([]driver.Standing, error) {
		for _, c := range cs {
			if absent(c) {
				return nil, fmt.Errorf("%s: %w", what, driver.ErrUnsupported)
			}
		}
		return s.Session.(driver.Multi).EnterAll(ctx, cs)
	}
}
