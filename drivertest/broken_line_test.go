package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A testEngine is memlock with some calls overridden: one that breaks a law in a
// way a real engine might, or, with law 0, one that keeps all of them.
type testEngine struct {
	name     string
	law      int // the law whose cases must fail; 0: all cases must pass
	override func(*overridden)
}

// brokenLines break the laws on order, expiry and claims.
var brokenLines = []testEngine{
	{"the second in line goes first", 2, func(engine *overridden) {
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			line := engine.line(c.Name)
			if i := slices.IndexFunc(line, func(e driver.Entry) bool { return !e.Held }); i >= 0 && line[i].ID != c.ID {
				first := engine.opened(line[i].Session)
				_ = first.Session.Leave(ctx, line[i].Claim)
				_, _ = first.Session.Enter(ctx, line[i].Claim)
			}
			return s.Session.Leave(ctx, c)
		}
	}},
	{"beat revives", 15, func(engine *overridden) {
		engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			err := s.Session.Beat(ctx, live, out)
			for i := range out {
				if out[i].Gone && err == nil {
					out[i], _ = s.Session.Enter(ctx, withoutQueue(live[i]))
				}
			}
			return err
		}
	}},
	{"beat answers for all and prolongs the first fifty", 15, func(engine *overridden) {
		engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			const reached = 50
			n := min(len(live), reached)
			err := s.Session.Beat(ctx, live[:n], out[:n])
			for i, c := range live[n:] {
				at := slices.IndexFunc(engine.line(c.Name), func(e driver.Entry) bool { return e.ID == c.ID })
				if out[n+i] = (driver.Standing{Gone: at < 0}); at >= 0 {
					e := engine.line(c.Name)[at]
					out[n+i] = driver.Standing{Held: e.Held, Token: e.Fence, Valid: s.TTL()}
				}
			}
			return err
		}
	}},
	{"beat is all or nothing", 15, func(engine *overridden) {
		engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			err := s.Session.Beat(ctx, live, out)
			if slices.ContainsFunc(out, func(st driver.Standing) bool { return st.Gone }) {
				for i := range out {
					out[i] = driver.Standing{Gone: true}
				}
			}
			return err
		}
	}},
	{"beat hides an eviction", 15, func(engine *overridden) {
		engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			err := s.Session.Beat(ctx, live, out)
			for i := range out {
				if out[i].Gone {
					out[i] = driver.Standing{Held: true, Valid: s.TTL()}
				}
			}
			return err
		}
	}},
	{"beat does not prolong", 15, func(engine *overridden) {
		engine.beat = func(_ context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			for i, c := range live {
				out[i] = driver.Standing{Gone: true}
				for _, e := range engine.line(c.Name) {
					if e.ID == c.ID && e.Try == c.Try {
						out[i] = driver.Standing{Held: e.Held, Token: e.Fence, Valid: s.TTL()}
					}
				}
			}
			return nil
		}
	}},
	{"leave ends a later try", 14, func(engine *overridden) {
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			c.Try = 1 << 30
			return s.Session.Leave(ctx, c)
		}
	}},
	{"leave knows no gone", 1, func(engine *overridden) {
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			if err := s.Session.Leave(ctx, c); !errors.Is(err, driver.ErrGone) {
				return err
			}
			return nil
		}
	}},
	{"a late enter replaces a later try", 14, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			for _, e := range engine.line(c.Name) {
				if e.ID == c.ID && e.Try > c.Try {
					_ = s.Session.Leave(ctx, e.Claim)
				}
			}
			return s.Session.Enter(ctx, c)
		}
	}},
	{"a repeated enter loses its place", 1, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			for _, e := range engine.line(c.Name) {
				if e.ID == c.ID && e.Try == c.Try && !e.Held {
					_ = s.Session.Leave(ctx, c)
				}
			}
			return s.Session.Enter(ctx, c)
		}
	}},
	{"a repeated enter does not prolong", 1, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			for _, e := range engine.line(c.Name) {
				if e.ID == c.ID && e.Try == c.Try && e.Held {
					return driver.Standing{Held: true, Token: e.Fence, Valid: s.TTL()}, nil
				}
			}
			return s.Session.Enter(ctx, c)
		}
	}},
	{"a claim that only tries passes those who wait", 2, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if err != nil || st.Held || c.Queue {
				return st, err
			}
			used := int64(c.Need) // two writers overflow a 32-bit int
			for _, e := range engine.line(c.Name) {
				if e.Held {
					used += int64(e.Need)
				}
			}
			if used > int64(c.Limit) {
				return st, nil
			}
			return driver.Standing{Held: true, Token: 1 << 40, Valid: s.TTL()}, nil
		}
	}},
	{"a claim that only tries stays in line", 5, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			c.Queue = true
			return s.Session.Enter(ctx, c)
		}
	}},
	{"a dead waiter lives on", 2, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if err == nil && !st.Held && c.Queue {
				keepAlive(s, c, 40)
			}
			return st, err
		}
	}},
	{"claims end early", 8, func(engine *overridden) {
		engine.open = func(o driver.SessionOptions) driver.SessionOptions { o.TTL /= 2; return o }
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Valid *= 2
			return st, err
		}
	}},
	{"claims never end", 2, func(engine *overridden) {
		engine.open = func(o driver.SessionOptions) driver.SessionOptions { o.TTL *= 1000; return o }
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			st.Valid /= 1000
			return st, err
		}
	}},
	{"granting opens a confirm window", 4, func(engine *overridden) {
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			err := s.Session.Leave(ctx, c)
			for _, e := range engine.line(c.Name) {
				if e.Held && e.Since == 0 {
					time.AfterFunc(e.Left/4, func() { _ = engine.Engine.Evict(context.Background(), e) })
				}
			}
			return err
		}
	}},
}

// foldNames applies fold to the name in every call, so that List shows the folded
// name.
func foldNames(fold func(string) string) func(*overridden) {
	return func(engine *overridden) {
		claim := func(c driver.Claim) driver.Claim { c.Name = fold(c.Name); return c }
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			return s.Session.Enter(ctx, claim(c))
		}
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			return s.Session.Await(ctx, claim(c), last)
		}
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			return s.Session.Leave(ctx, claim(c))
		}
		engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
			folded := make([]driver.Claim, len(live))
			for i := range live {
				folded[i] = claim(live[i])
			}
			return s.Session.Beat(ctx, folded, out)
		}
	}
}

var brokenNames = []testEngine{
	{"names are folded to lower case", 13, foldNames(strings.ToLower)},
	{"names are trimmed", 13, foldNames(strings.TrimSpace)},
	{"names are cut at a colon", 13, foldNames(func(n string) string { n, _, _ = strings.Cut(n, ":"); return n })},
	{"names are paths", 13, foldNames(func(n string) string { return strings.TrimRight(n, "/") })},
	{"names are cut at 200 bytes", 13, foldNames(func(n string) string { return n[:min(len(n), 200)] })},
}
