package engines_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// counted counts the requests with which claims enter their lines.
type counted struct {
	driver.Engine
	single, together atomic.Int64
}

func (e *counted) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if m, ok := s.(driver.Multi); ok {
		return &countedMulti{countedSession{s, e}, m}, nil
	}
	return &countedSession{s, e}, nil
}

// took returns the number of requests since the last call.
func (e *counted) took() (single, together int64) { return e.single.Swap(0), e.together.Swap(0) }

type countedSession struct {
	driver.Session
	e *counted
}

func (s *countedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	s.e.single.Add(1)
	return s.Session.Enter(ctx, c)
}

type countedMulti struct {
	countedSession
	m driver.Multi
}

func (s *countedMulti) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	s.e.together.Add(1)
	return s.m.EnterAll(ctx, cs)
}

func TestFreeNamesAreTakenInOneStepWhereTheEngineCan(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		other := open(t)
		e := &counted{Engine: other.Engine()}
		c := pawl.New(e)
		defer c.Close()
		ctx := t.Context()
		s, err := e.Engine.Open(ctx, driver.SessionOptions{ID: "0123456789abcdef0123456789abcdef", TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, atOnce := s.(driver.Multi)
		_ = s.Close(ctx)
		for _, lock := range []func(context.Context, []string, ...pawl.Option) (*pawl.Lease, error){c.LockAll, c.TryLockAll} {
			lease, err := lock(ctx, []string{"a", "b", "c", "d", "e"})
			if err != nil {
				t.Fatal(err)
			}
			single, together := e.took()
			if atOnce && (single != 0 || together != 1) || !atOnce && (single != 5 || together != 0) {
				t.Errorf("five free names took %d single steps and %d for all; the engine can: %v", single, together, atOnce)
			}
			if _, err := other.TryLockAll(ctx, []string{"c", "x"}); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("TryLock over a held name: %v", err)
			}
			if err := lease.Unlock(); err != nil {
				t.Error(err)
			}
		}
		held, err := other.Mutex("b").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		e.took()
		_, err = c.TryLockAll(ctx, []string{"a", "b", "c"})
		if h, ok := errors.AsType[*pawl.Error](err); !errors.Is(err, pawl.ErrHeld) || !ok || h.Name != "b" {
			t.Errorf("TryLock over b: %v", err)
		}
		if single, together := e.took(); atOnce && (single != 0 || together != 1) {
			t.Errorf("a try took %d single steps and %d for all", single, together)
		}
		_ = held.Unlock()
		expectNothingHeld(t, other)
	})
}

// One caller takes single locks in the order of their names, another takes them
// together: neither blocks the other for ever.
func TestSingleLocksInOrderNeverDeadlockWithSeveralAtOnce(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, b := open(t), open(t)
		var all sync.WaitGroup
		all.Go(func() {
			for range 20 {
				lease, err := a.LockAll(ctx, []string{"b", "a"})
				if err != nil {
					t.Errorf("together: %v", err)
					return
				}
				if err := lease.Unlock(); err != nil {
					t.Errorf("together: %v", err)
				}
			}
		})
		all.Go(func() {
			for range 20 {
				err := b.Mutex("a").Do(ctx, func(ctx context.Context, _ *pawl.Lease) error {
					return b.Mutex("b").Do(ctx, func(context.Context, *pawl.Lease) error { return nil })
				})
				if err != nil {
					t.Errorf("one by one: %v", err)
					return
				}
			}
		})
		all.Wait()
		expectNothingHeld(t, a)
	})
}
