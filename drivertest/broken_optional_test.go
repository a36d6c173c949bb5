package drivertest_test

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// brokenOptional break the optional interfaces.
var brokenOptional = []testEngine{
	{"store ignores the version", 10, func(engine *overridden) {
		engine.store = func(ctx context.Context, key string, value []byte, _ uint64, keep time.Duration) (uint64, error) {
			_, v, _ := engine.Engine.Load(ctx, key)
			return engine.Engine.Store(ctx, key, value, v, keep)
		}
	}},
	{"a version is used again after a delete", 14, func(engine *overridden) {
		base := map[string]uint64{}
		engine.load = func(ctx context.Context, key string) ([]byte, uint64, error) {
			value, v, err := engine.Engine.Load(ctx, key)
			engine.mu.Lock()
			defer engine.mu.Unlock()
			return value, less(v, base[key]), err
		}
		engine.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			engine.mu.Lock()
			defer engine.mu.Unlock()
			if ifVersion > 0 {
				ifVersion += base[key]
			}
			v, err := engine.Engine.Store(ctx, key, value, ifVersion, keep)
			if err == nil && ifVersion == 0 {
				base[key] = v - 1
			}
			return less(v, base[key]), err
		}
	}},
	{"records are kept for ever", 8, func(engine *overridden) {
		engine.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, _ time.Duration) (uint64, error) {
			return engine.Engine.Store(ctx, key, value, ifVersion, 0)
		}
	}},
	{"a record of any size is cut", 12, func(engine *overridden) {
		engine.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			if len(value) > driver.MaxRecord {
				value = value[:driver.MaxRecord]
			}
			return engine.Engine.Store(ctx, key, value, ifVersion, keep)
		}
	}},
	{"enter all keeps some", 5, func(engine *overridden) {
		engine.enterAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim) ([]driver.Standing, error) {
			var all []driver.Standing
			for _, c := range cs {
				st, err := s.Session.Enter(ctx, c)
				if err != nil {
					return all, err
				}
				all = append(all, st)
			}
			return all, nil
		}
	}},
	{"enter all goes one by one", 2, func(engine *overridden) {
		engine.enterAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim) ([]driver.Standing, error) {
			if slices.ContainsFunc(cs, func(c driver.Claim) bool { return !c.Queue || !c.Exclusive() }) {
				return s.Session.(driver.Multi).EnterAll(ctx, cs)
			}
			all := make([]driver.Standing, len(cs))
			for i, c := range cs {
				var err error
				if all[i], err = s.Session.Enter(ctx, c); err != nil {
					return nil, err
				}
				time.Sleep(time.Millisecond)
			}
			return all, nil
		}
	}},
	{"leave all says nothing of a claim that is not there", 1, func(engine *overridden) {
		engine.leaveAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim, out []error) {
			for _, c := range cs {
				_ = s.Leave(ctx, c)
			}
		}
	}},
	{"leave all ends later tries", 1, func(engine *overridden) {
		engine.leaveAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim, out []error) {
			for i, c := range cs {
				c.Try++
				out[i] = s.Leave(ctx, c)
			}
		}
	}},
	{"leave all forgets the last", 7, func(engine *overridden) {
		engine.leaveAll = func(ctx context.Context, s *overriddenSession, cs []driver.Claim, out []error) {
			for i, c := range cs {
				if i == 0 || i < len(cs)-1 || i == 2 {
					out[i] = s.Leave(ctx, c)
				}
			}
		}
	}},
	{"store compares and writes in two steps", 10, func(engine *overridden) {
		engine.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			_, v, err := engine.Engine.Load(ctx, key)
			if err != nil || v != ifVersion {
				return engine.Engine.Store(ctx, key, value, ifVersion, keep)
			}
			time.Sleep(time.Millisecond)
			_, v, _ = engine.Engine.Load(ctx, key)
			return engine.Engine.Store(ctx, key, value, v, keep)
		}
	}},
	{"watch outlives its ctx", 9, func(engine *overridden) {
		engine.watch = func(ctx context.Context, name string) (<-chan struct{}, error) {
			return engine.Engine.Watch(context.WithoutCancel(ctx), name)
		}
	}},
	{"another is said to be in the way", 2, func(engine *overridden) {
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if st.Holder != nil {
				st.Holder.ID, st.Holder.Note = c.ID, c.Note
			}
			return st, err
		}
	}},
	{"watch never tells", 6, func(engine *overridden) {
		engine.watch = func(ctx context.Context, _ string) (<-chan struct{}, error) {
			told := make(chan struct{})
			context.AfterFunc(ctx, func() { close(told) })
			return told, nil
		}
	}},
}

func less(v, base uint64) uint64 {
	if v == 0 {
		return 0
	}
	return v - base
}
