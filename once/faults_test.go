package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/once"
)

// breakLock is an operator that takes a runner's lease away.
func breakLock(t *testing.T, c *pawl.Client) {
	t.Helper()
	for e, err := range c.List(t.Context(), ".pawl/once/k") {
		if err == nil {
			err = c.Evict(t.Context(), e)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestARunnerThatLostItsLeaseCannotStore(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		a, b, ctx := open(t, pawl.WithTTL(2*time.Second)), open(t), t.Context()
		v, err := once.Do(ctx, a, "k", func(lease context.Context) (string, error) {
			breakLock(t, b)
			<-lease.Done()
			second, err := once.Do(ctx, b, "k", func(ctx context.Context) (string, error) {
				if once.Token(ctx) <= once.Token(lease) {
					t.Errorf("token %d follows %d", once.Token(ctx), once.Token(lease))
				}
				return "second", nil
			})
			if err != nil || second != "second" {
				t.Errorf("the second runner: %q, %v", second, err)
			}
			return "first", nil
		})
		if !errors.Is(err, pawl.ErrLost) {
			t.Errorf("the first runner gets %q, %v, not ErrLost", v, err)
		}
		if v, err := once.Do(ctx, b, "k", never[string](t)); v != "second" || err != nil {
			t.Errorf("a duplicate gets %q, %v", v, err)
		}
	})
}

// A runner that does not know yet that it lost its lease stores after another has
// begun. Its write goes over the version that it began with, and that is gone.
func TestARunnerThatDoesNotKnowOfItsLossCannotStoreEither(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c, ctx := open(t, pawl.WithTTL(30*time.Second)), t.Context()
		r, err := c.Records()
		if err != nil {
			t.Fatal(err)
		}
		for _, fails := range []bool{false, true} {
			_, err = once.Do(ctx, c, "k", func(context.Context) (string, error) {
				value, version, err := r.Load(ctx, ".pawl/once/k")
				if err == nil {
					_, err = r.Store(ctx, ".pawl/once/k", append(value, ' '), version, 0) // as one that takes over does
				}
				if err != nil {
					t.Error(err)
				}
				if fails {
					return "", errors.New("failed")
				}
				return "first", nil
			})
			if !errors.Is(err, pawl.ErrLost) {
				t.Errorf("it gets %v, not ErrLost", err)
			}
			if rec, err := once.Find(ctx, c, "k"); err != nil || rec.State != once.Running {
				t.Errorf("the record of the other is %v, %v", rec.State, err)
			}
			if err := once.Forget(ctx, c, "k"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestARunThatWasLostIsHeldUntilSomebodyResolvesIt(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		a, b, ctx := open(t, pawl.WithTTL(2*time.Second)), open(t), t.Context()
		lose := func() {
			_, err := once.Do(ctx, a, "k", func(lease context.Context) (string, error) {
				breakLock(t, b)
				<-lease.Done()
				return "charged", nil
			}, once.WithHold())
			if !errors.Is(err, pawl.ErrLost) {
				t.Fatalf("a run that lost its lease: %v", err)
			}
		}
		lose()
		for range 2 { // a call without WithHold gets the same: the run was begun with it
			_, err := once.Do(ctx, b, "k", never[string](t))
			if e, ok := errors.AsType[*once.Error](err); !errors.Is(err, once.ErrUnknownOutcome) || !ok || e.Record.State != once.Unknown || e.Record.Attempts != 1 {
				t.Fatalf("after a run of unknown outcome: %v", err)
			}
		}
		if err := once.Complete(ctx, b, "k", "charged"); err != nil {
			t.Fatal(err)
		}
		if v, err := once.Do(ctx, a, "k", never[string](t)); v != "charged" || err != nil {
			t.Errorf("after Complete: %q, %v", v, err)
		}
		if err := once.Complete(ctx, b, "k", "twice"); !errors.Is(err, once.ErrFinished) {
			t.Errorf("a second Complete: %v", err)
		}
		if err := once.Forget(ctx, b, "k"); err != nil {
			t.Fatal(err)
		}
		lose()
		if err := once.Forget(ctx, b, "k"); err != nil {
			t.Fatal(err)
		}
		if v, err := once.Do(ctx, b, "k", func(context.Context) (string, error) { return "again", nil }); v != "again" || err != nil {
			t.Errorf("after Forget: %q, %v", v, err)
		}
	})
}

// Each reply to a write is swallowed in turn: of the record that begins the run, of
// the one that ends it, and of the lock's.
func TestNoLostReplyMakesTheWorkRunTwiceOrFail(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, testserver.Redis(t).Addr())
	c := recipetest.On("redis://" + proxy.Addr())(t)
	one := func(context.Context) (int, error) { return 1, nil }
	if _, err := once.Do(t.Context(), c, "warm", one); err != nil { // the scripts are known from here on
		t.Fatal(err)
	}
	for _, moment := range []string{`"state":"running"`, `"state":"done"`} {
		key := strings.Trim(moment, `"`)
		swallowed, runs := proxy.Swallowed(), 0
		proxy.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(b []byte) bool {
			return strings.Contains(string(b), moment)
		}))
		v, err := once.Do(t.Context(), c, key, func(context.Context) (int, error) { runs++; return 9, nil }, once.WithHold())
		if v != 9 || err != nil || runs != 1 {
			t.Errorf("reply to %s lost: %d, %v, after %d runs", moment, v, err, runs)
		}
		if proxy.Swallowed() != swallowed+1 {
			t.Errorf("no reply to %s was swallowed", moment)
		}
		if v, err := once.Do(t.Context(), c, key, never[int](t)); v != 9 || err != nil {
			t.Errorf("reply to %s lost: a duplicate gets %d, %v", moment, v, err)
		}
	}
}

// The store goes away just when the work is done, and comes back while the lease is
// still good: the result is kept.
func TestAResultOutlastsAnOutageThatTheLeaseOutlasts(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, testserver.Redis(t).Addr())
	c := recipetest.On("redis://"+proxy.Addr())(t, pawl.WithTTL(30*time.Second))
	v, err := once.Do(t.Context(), c, "k", func(context.Context) (int, error) {
		proxy.Refuse()
		proxy.Reset()
		time.AfterFunc(time.Second, proxy.Heal)
		return 3, nil
	}, once.WithHold())
	if v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if v, err := once.Do(t.Context(), c, "k", never[int](t)); v != 3 || err != nil {
		t.Errorf("a duplicate: %d, %v", v, err)
	}
}
