package pawl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A rigMulti is a withFaults session that enters several claims at once.
type rigMulti struct {
	*faultSession
	hook func(ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error)
}

func (m *rigMulti) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	return m.hook(ctx, cs, m.Session.(driver.Multi).EnterAll)
}

var errNoReply = fmt.Errorf("%w: the reply is lost", driver.ErrUnreachable)

// atOnce runs fn with a client whose EnterAll goes through hook, which is told how
// often it was called before. In the end nothing may be left in the store.
func atOnce(t *testing.T, hook func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error), fn func(t *testing.T, c *Client, calls *int, singles *int)) {
	t.Helper()
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		calls, singles := 0, 0
		r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
			singles++
			return next(ctx)
		}
		r.open = func(_ context.Context, next func() (driver.Session, error)) (driver.Session, error) {
			s, err := next()
			if err != nil {
				return nil, err
			}
			return &rigMulti{s.(*faultSession), func(ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
				calls++
				return hook(calls-1, ctx, cs, next)
			}}, nil
		}
		fn(t, c, &calls, &singles)
		time.Sleep(8 * time.Second) // what was under way has arrived, and would not have expired by itself
		for e, err := range c.List(t.Context(), "") {
			t.Errorf("%s is left, %v", e.Name, err)
		}
	}, WithTTL(10*time.Second))
}

func TestALostReplyToAllNamesIsAskedForAgain(t *testing.T) {
	var ids []string
	atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
		out, err := next(ctx, cs)
		ids = append(ids, cs[0].ID)
		if n == 0 {
			return nil, errNoReply
		}
		return out, err
	}, func(t *testing.T, c *Client, calls, singles *int) {
		l := must(t)(c.TryLockAll(t.Context(), []string{"a", "b"}))
		if *calls != 2 || *singles != 0 || ids[0] != ids[1] {
			t.Errorf("%d steps for all, as %q, and %d for one", *calls, ids, *singles)
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestAllNamesThatAreEnteredAfterEverybodyHasLeftDoNotStay(t *testing.T) {
	for _, try := range []bool{true, false} {
		atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
			if n == 0 {
				time.AfterFunc(3*time.Second, func() { _, _ = next(context.Background(), cs) })
			}
			return nil, errNoReply
		}, func(t *testing.T, c *Client, _, _ *int) {
			if try {
				if _, err := c.TryLockAll(t.Context(), []string{"a", "b"}); !errors.Is(err, ErrUnreachable) {
					t.Errorf("TryLockAll: %v, not ErrUnreachable", err)
				}
				return
			}
			l := must(t)(c.LockAll(t.Context(), []string{"a", "b"}))
			time.Sleep(time.Second)
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAllNamesInASessionThatHasEndedAreTakenInAnother(t *testing.T) {
	atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
		if n == 0 {
			return nil, driver.ErrGone
		}
		return next(ctx, cs)
	}, func(t *testing.T, c *Client, _, _ *int) {
		for range 2 {
			if err := must(t)(c.TryLockAll(t.Context(), []string{"a", "b"})).Unlock(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAGrantOfAllNamesThatComesTooLateIsGivenBack(t *testing.T) {
	atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
		out, err := next(ctx, cs)
		if n == 0 {
			time.Sleep(9500 * time.Millisecond) // within the call's bound, after the deadline of the hold
		}
		return out, err
	}, func(t *testing.T, c *Client, _, _ *int) {
		start := time.Now()
		l := must(t)(c.LockAll(t.Context(), []string{"a", "b"}))
		if took := time.Since(start); took > 9800*time.Millisecond {
			t.Errorf("after %v: what came too late was not given back, but has expired", took)
		}
		if l.Err() != nil || time.Until(l.Deadline()) < 5*time.Second {
			t.Errorf("the lease ends at %v: %v", l.Deadline(), l.Err())
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestAllNamesOfACallerThatGoesAwayAreLeft(t *testing.T) {
	atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
		_, _ = next(ctx, cs)
		<-ctx.Done()
		return nil, ctx.Err()
	}, func(t *testing.T, c *Client, _, _ *int) {
		for _, take := range []func(context.Context, []string, ...Option) (*Lease, error){c.LockAll, c.TryLockAll} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := take(ctx, []string{"a", "b"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it gets %v, not its ctx's error", err)
			}
			cancel()
		}
	})
}

func TestOneNameOrANestedOneIsNotAStepForAll(t *testing.T) {
	atOnce(t, func(n int, ctx context.Context, cs []driver.Claim, next func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
		return next(ctx, cs)
	}, func(t *testing.T, c *Client, calls, _ *int) {
		one := must(t)(c.LockAll(t.Context(), []string{"a"}))
		if _, err := c.LockAll(one.Context(), []string{"a", "b"}); !errors.Is(err, ErrReentry) {
			t.Errorf("LockAll of what its own context holds: %v, not ErrReentry", err)
		}
		if *calls != 0 {
			t.Errorf("%d steps for all", *calls)
		}
		if err := one.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestTryLockAllDuringCloseIsErrClosed(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		asked := make(chan struct{})
		r.open = func(_ context.Context, next func() (driver.Session, error)) (driver.Session, error) {
			s, err := next()
			if err != nil {
				return nil, err
			}
			return &rigMulti{s.(*faultSession), func(ctx context.Context, _ []driver.Claim, _ func(context.Context, []driver.Claim) ([]driver.Standing, error)) ([]driver.Standing, error) {
				close(asked)
				<-ctx.Done()
				return nil, ctx.Err()
			}}, nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.TryLockAll(t.Context(), []string{"a", "b"})
			done <- err
		}()
		<-asked
		c.Close()
		wantErr(t, <-done, ErrClosed)
	})
}
