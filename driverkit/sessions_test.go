package driverkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

type closer struct {
	err    error
	stuck  bool
	slow   time.Duration
	closed int
}

func (c *closer) Close(ctx context.Context) error {
	c.closed++
	select {
	case <-time.After(c.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.err
}

func TestCloseEndsSessionsAndReportsAnErrorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := driverkit.NewSessions[*closer]("engine")
		fault := errors.New("fault")
		good, bad, left := &closer{}, &closer{err: fault}, &closer{}
		for id, s := range map[string]*closer{"good": good, "bad": bad, "left": left} {
			if err := r.Add(id, s); err != nil {
				t.Fatal(err)
			}
		}
		if s, ok := r.Find("good"); s != good || !ok {
			t.Errorf("found %v, %v", s, ok)
		}
		if all := r.All(); len(all) != 3 {
			t.Errorf("%d of three sessions", len(all))
		}
		r.Remove("left", left)
		r.Remove("left", left)
		if _, ok := r.Find("left"); ok {
			t.Error("found one that was removed")
		}
		ended, last := false, errors.New("at close")
		if err := r.Go(func(ctx context.Context) { <-ctx.Done(); ended = true }); err != nil {
			t.Fatal(err)
		}
		r.AtClose = func() error {
			if !ended || bad.closed == 0 {
				t.Error("AtClose is called before the sessions and goroutines have ended")
			}
			return last
		}
		if err := r.Close(); !errors.Is(err, fault) || !errors.Is(err, last) || !ended {
			t.Errorf("Close: %v, the goroutine has ended: %v", err, ended)
		}
		if err := r.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		if good.closed != 1 || bad.closed != 1 || left.closed != 0 {
			t.Errorf("closed %d, %d and %d times", good.closed, bad.closed, left.closed)
		}
		for what, err := range map[string]error{
			"Begin": r.Begin(t.Context()), "Add": r.Add("late", left), "Go": r.Go(func(context.Context) { t.Error("started") }),
		} {
			if err == nil || err.Error() != "engine: engine is closed" {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	})
}

func TestAStoreThatDoesNotAnswerHoldsCloseUpForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := driverkit.NewSessions[*closer]("engine")
		for _, id := range []string{"a", "b"} {
			if err := r.Add(id, &closer{stuck: true}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		go func() { _ = r.Close() }() // the later call waits for the first
		time.Sleep(time.Second)
		if err := r.Close(); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestSlowSessionsAreClosedAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := driverkit.NewSessions[*closer]("engine")
		for _, id := range []string{"a", "b", "c"} {
			if err := r.Add(id, &closer{slow: 1500 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A session that was opened anew under its ID is not taken out with the old one.
func TestRemoveKeepsALaterSessionOfTheSameID(t *testing.T) {
	r := driverkit.NewSessions[*closer]("engine")
	one, two := &closer{}, &closer{}
	if err := errors.Join(r.Add("a", one), r.Add("a", two)); err != nil {
		t.Fatal(err)
	}
	r.Remove("a", one)
	if s, _ := r.Find("a"); s != two {
		t.Error("the later one is not found")
	}
}

type starter struct {
	r       *driverkit.Sessions[*starter]
	started error
}

func (s *starter) Close(context.Context) error {
	s.started = s.r.Go(func(ctx context.Context) { <-ctx.Done() })
	return nil
}

func TestASessionMayStartAGoroutineAsItIsClosed(t *testing.T) {
	t.Parallel()
	r := driverkit.NewSessions[*starter]("engine")
	s := &starter{r: r}
	if err := r.Add("a", s); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || s.started != nil {
		t.Errorf("Close: %v, Go: %v", err, s.started)
	}
}
