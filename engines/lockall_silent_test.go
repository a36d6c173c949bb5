package engines_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// swift is how long a call may take that has nothing to wait for, even on a machine
// that stalled. What it must not wait for takes several times as long.
const swift = 4 * time.Second

// silence blocks all traffic in both directions.
func silence(proxies []*faultproxy.Proxy) {
	for _, p := range proxies {
		p.BlackHole(faultproxy.Both)
	}
}

func heal(proxies []*faultproxy.Proxy) {
	for _, p := range proxies {
		p.Heal()
	}
}

// A store that stops answering is reported as unreachable within a TTL, and a free
// name in it is not reported as held.
func TestASilentStoreIsUnreachableAndNothingOnItIsHeld(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // a file always answers
		}
		const ttl = 6 * time.Second
		through, proxies := s.Through(t)
		c := through(t, pawl.WithTTL(ttl))
		before, err := c.Mutex("before").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := before.Unlock(); err != nil {
			t.Fatal(err)
		}
		silence(proxies)
		from := time.Now()
		_, err = c.Mutex("free").TryLock(t.Context())
		took := time.Since(from)
		t.Logf("TryLock is back after %v: %v", took, err)
		if _, held := errors.AsType[*pawl.HeldError](err); held || !errors.Is(err, pawl.ErrUnreachable) || took > ttl+swift {
			t.Errorf("TryLock is back after %v with %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = c.Mutex("also free").Lock(ctx)
		if _, held := errors.AsType[*pawl.HeldError](err); held || !errors.Is(err, pawl.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock until its ctx ends: %v", err)
		}
		heal(proxies)
	})
}

func TestTheWaitIsBoundedAlsoWhereTheStoreIsSilent(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // a file always answers
		}
		through, proxies := s.Through(t)
		c := through(t, pawl.WithTTL(10*time.Second), pawl.WithWait(2*time.Second))
		lease, err := c.LockAll(t.Context(), []string{"a", "b"}, pawl.WithWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(); err != nil {
			t.Fatal(err)
		}
		silence(proxies)
		defer heal(proxies)
		from := time.Now()
		_, err = c.LockAll(t.Context(), []string{"a", "b"})
		if took := time.Since(from); !errors.Is(err, pawl.ErrHeld) || took > 2*time.Second+swift {
			t.Errorf("a wait of 2 s ends after %v with %v, not ErrHeld", took, err)
		}
	})
}

// Four names are held and the fifth is waited for when the store stops answering
// and the caller gives up: it must not block until the store has answered for each
// of the four.
func TestACallerThatGivesUpIsNotKeptByASilentStore(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // a file always answers
		}
		through, proxies := s.Through(t)
		other := recipetest.On(s.URL)(t)
		last, err := other.Mutex("z").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan struct{}, 10)
		c := through(t, pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
			if e.Kind == pawl.Waiting && e.Name == "z" {
				waits <- struct{}{}
			}
		})))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { // ends with ctx
			_, err := c.LockAll(ctx, []string{"a", "b", "c", "d", "z"})
			done <- err
		}()
		select {
		case <-waits:
		case err := <-done:
			t.Fatalf("it did not wait: %v; the other's lock: %v", err, last.Err())
		}
		silence(proxies)
		from := time.Now()
		cancel()
		err = <-done
		if took := time.Since(from); !errors.Is(err, context.Canceled) || took > swift {
			t.Errorf("it is back after %v with %v", took, err)
		}
		heal(proxies)
		_ = last.Unlock()
		expectNothingHeld(t, other)
	})
}
