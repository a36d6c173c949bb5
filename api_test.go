package pawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

func TestTTLs(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		for _, bad := range []time.Duration{0, -1, math.MinInt64, math.MaxInt64, maxTTL + 1} {
			_, err := c.Mutex("a", WithTTL(bad)).Lock(t.Context())
			wantErr(t, err, ErrInvalid)
		}
		for asked, want := range map[time.Duration]time.Duration{
			1:                       minTTL,
			minTTL + 1:              minTTL + time.Millisecond,
			1500 * time.Millisecond: 1500 * time.Millisecond,
		} {
			l := must(t)(c.Mutex("a", WithTTL(asked)).Lock(t.Context()))
			if got := l.cl.s.ttl; got != want {
				t.Errorf("TTL %v became %v, want %v", asked, got, want)
			}
			l.Unlock()
		}
		_, err := Open(t.Context(), "mem:", WithTTL(-time.Second))
		wantErr(t, err, ErrInvalid)
	})
}

func TestAShorterTTLThanAskedIsAnError(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.open = func(ctx context.Context, next func() (driver.Session, error)) (driver.Session, error) {
				return r.Engine.Open(ctx, driver.SessionOptions{ID: newID(), TTL: time.Second})
			}
		})
		_, err := c.Mutex("a").Lock(t.Context())
		wantErr(t, err, ErrInvalid)
	})
}

func TestNonsenseOptions(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		for name, o := range map[string]Option{
			"wait":       WithWait(-1),
			"hold":       WithMaxHold(0),
			"long hold":  WithMaxHold(math.MaxInt64),
			"old hold":   WithMaxHold(250 * 365 * 24 * time.Hour),
			"long note":  WithNote(strings.Repeat("x", driver.MaxNote+1)),
			"wrong note": WithNote("\xff"),
		} {
			if _, err := c.Mutex("a", o).Lock(t.Context()); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

func TestNilContextsAndFunctionsPanic(t *testing.T) {
	c := New(memlock.New())
	defer c.Close()
	for name, call := range map[string]func(){
		"Lock":    func() { c.Mutex("a").Lock(nil) },        //nolint:staticcheck // that is the point
		"LockAll": func() { c.LockAll(nil, []string{"a"}) }, //nolint:staticcheck // that is the point
		"Open":    func() { Open(nil, "mem:") },             //nolint:staticcheck // that is the point
		"Do":      func() { c.Mutex("a").Do(nil, nil) },     //nolint:staticcheck // that is the point
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memlock.New()
		c := New(engine)
		held := must(t)(c.Mutex("a").Lock(t.Context()))
		all := must(t)(c.LockAll(t.Context(), []string{"x", "y"}))
		other := New(engine)
		defer other.Close()
		taken := must(t)(other.Mutex("b").Lock(t.Context()))
		failed := make(chan error, 1)
		go func() {
			_, err := c.Mutex("b").Lock(context.Background())
			failed <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-failed, ErrClosed)
		wantErr(t, context.Cause(held.Context()), ErrClosed)
		wantErr(t, context.Cause(all.Context()), ErrClosed)
		wantErr(t, held.Unlock(), ErrClosed)
		wantErr(t, held.Unlock(), ErrNotHeld)
		_, err := c.Mutex("a").Lock(t.Context())
		wantErr(t, err, ErrClosed)
		if n := listed(t, other); n != 1 {
			t.Errorf("%d claims", n)
		}
		if err := c.Close(); err != nil {
			t.Error("the second Close:", err)
		}
		taken.Unlock()
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a")
		boom := errors.New("boom")
		wantErr(t, m.Do(t.Context(), func(ctx context.Context, l *Lease) error {
			if ctx.Err() != nil || l.Err() != nil {
				t.Error(ctx.Err(), l.Err())
			}
			return boom
		}), boom)

		ctx, cancel := context.WithCancel(t.Context())
		err := m.Do(ctx, func(ctx context.Context, _ *Lease) error {
			cancel()
			if ctx.Err() == nil {
				t.Error("the caller's end was not seen")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		wantErr(t, err, context.Canceled)

		err = m.Do(t.Context(), func(ctx context.Context, _ *Lease) error {
			for e := range c.List(ctx, "a") {
				c.Evict(ctx, e)
			}
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), ErrLost)
			return boom
		})
		wantErr(t, err, boom)
		wantErr(t, err, ErrLost)

		err = m.Do(t.Context(), func(ctx context.Context, _ *Lease) error {
			evictAll(t, c, "a")
			<-ctx.Done()
			return fmt.Errorf("row 7: %w", context.Cause(ctx))
		})
		wantErr(t, err, ErrLost)
		if n := strings.Count(err.Error(), ErrLost.Error()); n != 1 || !strings.HasPrefix(err.Error(), "row 7: ") {
			t.Errorf("a loss is told %d times: %v", n, err)
		}

		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), func(context.Context, *Lease) error { panic("fn") })
		}()
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims after a panic", n)
		}
	})
}

func TestTheContextCarriesValuesButNotTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		l := must(t)(c.Mutex("a").Lock(ctx))
		time.Sleep(time.Minute)
		if l.Context().Value(key{}) != "v" || l.Context().Err() != nil {
			t.Error(l.Context().Value(key{}), l.Context().Err())
		}
		if _, ok := l.Context().Deadline(); ok {
			t.Error("has a deadline")
		}
		child, stop := context.WithCancel(l.Context())
		defer stop()
		l.Unlock()
		<-child.Done()
		wantErr(t, context.Cause(child), ErrReleased)
	})
}

func TestLockAllTakesAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		all := must(t)(c.LockAll(t.Context(), []string{"b", "a", "b"}))
		if parts := all.Parts(); len(parts) != 2 || parts[0].Name() != "a" || parts[1].Name() != "b" || all.Part("b") != parts[1] || parts[0].Part("a") != parts[0] {
			t.Errorf("%+v", parts)
		}
		if !slices.Equal(all.Names(), []string{"a", "b"}) || all.Token() != 0 || all.Fence() != 0 || all.ID() != "" || all.Part("b").Token() == 0 {
			t.Errorf("names %q, token %d, ID %q", all.Names(), all.Token(), all.ID())
		}
		_, err := c.Mutex("b").Lock(all.Context())
		wantErr(t, err, ErrReentry)
		d := second(t, c, WithWait(time.Second))
		_, err = d.LockAll(t.Context(), []string{"0", "a"})
		wantErr(t, err, ErrHeld)
		synctest.Wait()
		if n := listed(t, c); n != 2 {
			t.Errorf("%d claims: none should have stayed", n)
		}
		_, err = d.TryLockAll(t.Context(), []string{"0", "b"})
		wantErr(t, err, ErrHeld)
		if e, ok := errors.AsType[*Error](err); !ok || e.Name != "b" {
			t.Errorf("which name: %v", err)
		}
		synctest.Wait()
		if n := listed(t, c); n != 2 {
			t.Errorf("%d claims: none should have stayed", n)
		}
		if err := all.Unlock(); err != nil {
			t.Error(err)
		}
		wantErr(t, all.Unlock(), ErrNotHeld)
		_, err = c.LockAll(t.Context(), nil)
		wantErr(t, err, ErrInvalid)
		_, err = c.LockAll(t.Context(), []string{"a"}, WithTTL(-1))
		wantErr(t, err, ErrInvalid)
		_, err = c.LockAll(t.Context(), []string{"a", ""})
		wantErr(t, err, ErrInvalidName)
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

func TestLockAllDoesNotDeadlockWithTheOppositeOrder(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		d := second(t, c)
		done := make(chan struct{}, 2)
		for _, who := range []struct {
			c     *Client
			names []string
		}{{c, []string{"a", "b", "c"}}, {d, []string{"c", "b", "a"}}} {
			go func() {
				for range 50 {
					must(t)(who.c.LockAll(context.Background(), who.names)).Unlock()
				}
				done <- struct{}{}
			}()
		}
		<-done
		<-done
	})
}

func TestALeaseOfSeveralNamesEndsWithAnyOfThem(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		all := must(t)(c.LockAll(t.Context(), []string{"a", "b"}))
		for e := range c.List(t.Context(), "b") {
			c.Evict(t.Context(), e)
		}
		<-all.Context().Done()
		wantErr(t, all.Err(), ErrLost)
		wantErr(t, all.Unlock(), ErrLost)
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

func TestWatchTellsWhatChanges(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changes := make(chan Change)
		go func() {
			defer close(changes)
			for ch, err := range c.Watch(ctx, "w/") {
				if err != nil {
					t.Error(err)
				}
				changes <- ch
			}
		}()
		next := func(step Step, name string) {
			t.Helper()
			if ch := <-changes; ch.Step != step || ch.Entry.Name != name {
				t.Fatalf("%v %s, want %v %s", ch.Step, ch.Entry.Name, step, name)
			}
		}
		must(t)(c.Mutex("other").Lock(t.Context()))
		a := must(t)(c.Mutex("w/a").Lock(t.Context()))
		next(Taken, "w/a")
		b := queue(t, t.Context(), second(t, c).Mutex("w/a").Lock)
		next(Queued, "w/a")
		a.Unlock()
		next(Left, "w/a")
		next(Taken, "w/a")
		(<-b).Unlock()
		next(Left, "w/a")
		cancel()
		for range changes {
			t.Error("a change after the end")
		}
	})
}

func TestOpen(t *testing.T) {
	ctx := t.Context()
	c, err := Open(ctx, "mem:?ttl=3s")
	if err != nil {
		t.Fatal(err)
	}
	if c.defaults.ttl != 3*time.Second || c.kind != "memory" {
		t.Error(c.defaults.ttl, c.kind)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	const secret = "s3cret"
	for _, bad := range []string{
		"", "nothing", "gopher://h", "mem:?tll=3s", "mem:?ttl=soon", "mem:?ttl=-1s",
		"x://u:" + secret + "@h:port/0", "x://u:" + secret + "@h1:1,h2:port/0", "x://u:" + secret + "@h1:1,h2/0", "x://u:" + secret + "@h/?password=" + secret, ":" + secret, "mem:?x=%zz" + secret,
	} {
		_, err := Open(ctx, bad)
		if err == nil {
			t.Errorf("%q was opened", bad)
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", bad, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q leaks: %v", bad, err)
		}
	}
	_, err = Open(ctx, "gopher://h")
	if err == nil || !strings.Contains(err.Error(), "mem") {
		t.Errorf("the known schemes are not listed: %v", err)
	}
}

func TestOpenHandsAnyListOfHostsToTheEngine(t *testing.T) {
	var got *url.URL
	driver.Register("listed", func(_ context.Context, u *url.URL) (driver.Engine, error) {
		got = u
		return memlock.New(), nil
	})
	for _, list := range []string{"h1:2379,h2", "h1,h2:2379", "h1:1,h2:2,h3", "h1,[::1]", "[::1]:1,h2"} {
		c, err := Open(t.Context(), "listed://u:p@"+list+"/path?ttl=3s&x=1")
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if got.Host != list || got.Path != "/path" || got.RawQuery != "x=1" || got.User.String() != "u:p" {
			t.Errorf("%s: the engine was given %v", list, got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLoggerHearsOfTrouble(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.blackHole()
		<-l.Context().Done()
		synctest.Wait()
	}, WithLogger(log))
	for _, want := range []string{`msg="lock in doubt"`, `msg="lock lost"`, "name=a", "token="} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "acquired") {
		t.Error("more than trouble was logged")
	}
}

func TestErrorsReadWell(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("jobs/42", WithNote("ana@ci-7")).Lock(t.Context()))
		time.Sleep(3 * time.Second)
		_, err := second(t, c).Mutex("jobs/42").TryLock(t.Context())
		if got, want := err.Error(), `lock "jobs/42": held by ana@ci-7 for 3s`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		l.Unlock()
		if got, want := l.Unlock().Error(), `unlock "jobs/42": lock is not held`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// An option is a value: applied twice, or used for many locks, it does the same each time.
func TestOptionsArePureAndAppliedOnce(t *testing.T) {
	var events atomic.Int64
	count := WithObserver(ObserverFunc(func(e Event) {
		if e.Kind == Acquired {
			events.Add(1)
		}
	}))
	c, err := Open(t.Context(), "mem:", count, WithLogger(nil), WithObserver(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 2000 {
		if err := must(t)(c.Mutex("a").Lock(t.Context())).Unlock(); err != nil {
			t.Fatal(err)
		}
		if n := events.Swap(0); n != 1 {
			t.Fatalf("lock %d was told %d times", i, n)
		}
		if err := must(t)(c.Mutex("a", count, WithLogger(nil)).Lock(t.Context())).Unlock(); err != nil {
			t.Fatal(err)
		}
		if n := events.Swap(0); n != 2 { // the client's and the lock's
			t.Fatalf("lock %d with the option once more was told %d times", i, n)
		}
	}
}
