package drivertest_test

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// extraMutants break what is optional.
var extraMutants = []mutant{
	{"store ignores the version", 10, func(b *bent) {
		b.store = func(ctx context.Context, key string, value []byte, _ uint64, keep time.Duration) (uint64, error) {
			_, v, _ := b.Engine.Load(ctx, key)
			return b.Engine.Store(ctx, key, value, v, keep)
		}
	}},
	{"a version is used again after a delete", 14, func(b *bent) {
		base := map[string]uint64{}
		b.load = func(ctx context.Context, key string) ([]byte, uint64, error) {
			value, v, err := b.Engine.Load(ctx, key)
			b.mu.Lock()
			defer b.mu.Unlock()
			return value, less(v, base[key]), err
		}
		b.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if ifVersion > 0 {
				ifVersion += base[key]
			}
			v, err := b.Engine.Store(ctx, key, value, ifVersion, keep)
			if err == nil && ifVersion == 0 {
				base[key] = v - 1
			}
			return less(v, base[key]), err
		}
	}},
	{"records are kept for ever", 8, func(b *bent) {
		b.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, _ time.Duration) (uint64, error) {
			return b.Engine.Store(ctx, key, value, ifVersion, 0)
		}
	}},
	{"a record of any size is cut", 12, func(b *bent) {
		b.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			if len(value) > driver.MaxRecord {
				value = value[:driver.MaxRecord]
			}
			return b.Engine.Store(ctx, key, value, ifVersion, keep)
		}
	}},
	{"enter all keeps some", 5, func(b *bent) {
		b.enterAll = func(ctx context.Context, s *bentSession, cs []driver.Claim) ([]driver.Standing, error) {
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
	{"enter all goes one by one", 2, func(b *bent) {
		b.enterAll = func(ctx context.Context, s *bentSession, cs []driver.Claim) ([]driver.Standing, error) {
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
	{"store compares and writes in two steps", 10, func(b *bent) {
		b.store = func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
			_, v, err := b.Engine.Load(ctx, key)
			if err != nil || v != ifVersion {
				return b.Engine.Store(ctx, key, value, ifVersion, keep)
			}
			time.Sleep(time.Millisecond)
			_, v, _ = b.Engine.Load(ctx, key)
			return b.Engine.Store(ctx, key, value, v, keep)
		}
	}},
	{"watch outlives its ctx", 9, func(b *bent) {
		b.watch = func(ctx context.Context, name string) (<-chan struct{}, error) {
			return b.Engine.Watch(context.WithoutCancel(ctx), name)
		}
	}},
	{"another is said to be in the way", 2, func(b *bent) {
		b.enter = func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if st.Holder != nil {
				st.Holder.ID, st.Holder.Note = c.ID, c.Note
			}
			return st, err
		}
	}},
	{"watch never tells", 6, func(b *bent) {
		b.watch = func(ctx context.Context, _ string) (<-chan struct{}, error) {
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
