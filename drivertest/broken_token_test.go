package drivertest_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// brokenTokens break the laws on tokens and limits.
var brokenTokens = []testEngine{
	{"tokens repeat", 3, func(engine *overridden) {
		mapTokens(engine, func(t uint64) uint64 { return (t + 1) / 2 })
	}},
	{"tokens shrink", 3, func(engine *overridden) {
		mapTokens(engine, func(t uint64) uint64 { return 1<<40 - t })
	}},
	{"tokens are too large", 12, func(engine *overridden) {
		mapTokens(engine, func(t uint64) uint64 { return 1<<55 + t })
	}},
	{"a repeated enter has a new token", 3, func(engine *overridden) {
		n := uint64(0)
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			engine.mu.Lock()
			defer engine.mu.Unlock()
			n++
			st, err := s.Session.Enter(ctx, c)
			if st.Held {
				st.Token = n << 20
			}
			return st, err
		}
	}},
	{"tokens without fencing", 12, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Fencing = driver.None; return f }
	}},
	{"any limit will do", 11, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			for _, e := range engine.line(c.Name) {
				if !c.Exclusive() && !e.Exclusive() {
					c.Limit = max(e.Limit, c.Need+1)
				}
			}
			return s.Session.Enter(ctx, c)
		}
	}},
	{"exclusive claims of different limits hold beside each other", 11, foldClaims(func(c driver.Claim) driver.Claim {
		if c.Exclusive() && c.Limit == 3 {
			c.Name += "\x00three"
		}
		return c
	})},
	{"readers are admitted though not declared", 12, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Shared = false; return f }
	}},
	{"semaphores are approximated by a mutex", 12, func(engine *overridden) {
		engine.features = func(f driver.Features) driver.Features { f.Count = false; return f }
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			if c.Limit < driver.All {
				c.Need, c.Limit = 1, 1
			}
			return s.Session.Enter(ctx, c)
		}
	}},
}

func mapTokens(engine *overridden, to func(uint64) uint64) {
	shown := func(t uint64) uint64 {
		if t == 0 {
			return 0
		}
		return to(t)
	}
	engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
		st, err := s.Session.Enter(ctx, c)
		st.Token = shown(st.Token)
		return st, err
	}
	engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
		st, err := s.Session.Await(ctx, c, last)
		st.Token = shown(st.Token)
		return st, err
	}
	engine.beat = func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error {
		err := s.Session.Beat(ctx, live, out)
		for i := range out {
			out[i].Token = shown(out[i].Token)
		}
		return err
	}
	engine.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
		return func(yield func(driver.Entry, error) bool) {
			for e, err := range engine.Engine.List(ctx, prefix) {
				e.Fence = shown(e.Fence)
				if !yield(e, err) {
					return
				}
			}
		}
	}
	engine.lineOf = func(ctx context.Context, name string) ([]driver.Entry, error) {
		line, err := engine.Engine.Line(ctx, name)
		for i := range line {
			line[i].Fence = shown(line[i].Fence)
		}
		return line, err
	}
	engine.evict = func(ctx context.Context, x driver.Entry) error {
		for _, e := range engine.line(x.Name) {
			if e.ID == x.ID && shown(e.Fence) == x.Fence {
				x.Fence = e.Fence
			}
		}
		return engine.Engine.Evict(ctx, x)
	}
}

// foldClaims applies fold to incoming claims. List is unchanged.
func foldClaims(fold func(driver.Claim) driver.Claim) func(*overridden) {
	return func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			return s.Session.Enter(ctx, fold(c))
		}
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			return s.Session.Await(ctx, fold(c), last)
		}
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			return s.Session.Leave(ctx, fold(c))
		}
	}
}

// brokenEnds break the laws on ending claims and on what operators see.
var brokenEnds = []testEngine{
	{"evict breaks a changed claim", 14, func(engine *overridden) {
		engine.evict = func(ctx context.Context, x driver.Entry) error {
			for _, e := range engine.line(x.Name) {
				if e.ID == x.ID {
					return engine.Engine.Evict(ctx, e)
				}
			}
			return engine.Engine.Evict(ctx, x)
		}
	}},
	{"closing a session ends everybody's claims", 14, func(engine *overridden) {
		engine.closeS = func(ctx context.Context, s *overriddenSession) error {
			for e := range engine.Engine.List(ctx, "") {
				_ = engine.Engine.Evict(ctx, e)
			}
			return s.Session.Close(ctx)
		}
	}},
	{"closing a session leaves its claims", 14, func(engine *overridden) {
		engine.closeS = func(context.Context, *overriddenSession) error { return nil }
	}},
	{"a goroutine outlives the engine", 9, func(engine *overridden) {
		engine.closeE = func() error {
			go time.Sleep(time.Hour)
			return engine.Engine.Close()
		}
	}},
	{"a prefix is a pattern", 13, func(engine *overridden) {
		engine.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
			return listWhere(engine, func(e driver.Entry) bool { return strings.HasPrefix(e.Name, strings.TrimRight(prefix, "%*_")) })
		}
	}},
	{"list folds case", 13, func(engine *overridden) {
		engine.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
			return listWhere(engine, func(e driver.Entry) bool {
				return strings.HasPrefix(strings.ToLower(e.Name), strings.ToLower(prefix))
			})
		}
	}},
	{"line is that of all names with the prefix", 13, func(engine *overridden) {
		engine.lineOf = func(ctx context.Context, name string) (line []driver.Entry, err error) {
			for e, err := range engine.Engine.List(ctx, name) {
				if err != nil {
					return nil, err
				}
				line = append(line, e)
			}
			return line, nil
		}
	}},
	{"line shows the holder alone", 13, func(engine *overridden) {
		engine.lineOf = func(ctx context.Context, name string) ([]driver.Entry, error) {
			line, err := engine.Engine.Line(ctx, name)
			return line[:min(1, len(line))], err
		}
	}},
	{"list is in no order", 2, func(engine *overridden) {
		engine.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				all := slices.Collect(first(engine.Engine.List(ctx, prefix)))
				slices.Reverse(all)
				for _, e := range all {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
	}},
	{"list shows no note", 10, func(engine *overridden) {
		engine.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range engine.Engine.List(ctx, prefix) {
					e.Note = ""
					if !yield(e, err) {
						return
					}
				}
			}
		}
	}},
}

func first(seq iter.Seq2[driver.Entry, error]) iter.Seq[driver.Entry] {
	return func(yield func(driver.Entry) bool) {
		for e := range seq {
			if !yield(e) {
				return
			}
		}
	}
}

func listWhere(engine *overridden, match func(driver.Entry) bool) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		for e := range engine.Engine.List(context.Background(), "") {
			if match(e) && !yield(e, nil) {
				return
			}
		}
	}
}
