package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A store that falls silent is not answered for: every call of the engine says that it
// did not answer, in the time that its ctx gives.
func TestASilentStoreIsUnreachable(t *testing.T) {
	t.Parallel()
	server := common(t)
	p := faultproxy.New(t, server.Addr())
	e := engine(t, []string{p.Addr()})
	s := open(t, e, unbeaten)
	held := mutex("held")
	hold(t, s, held)
	hold(t, s, mutex("busy"))
	waits := mutex("busy")
	last := wait(t, s, waits)
	p.BlackHole(faultproxy.Both)
	t.Cleanup(p.Heal) // after the last of the calls
	for what, call := range map[string]func(ctx context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: unbeaten})
			return err
		},
		"Enter":       func(ctx context.Context) error { _, err := s.Enter(ctx, mutex("free")); return err },
		"Enter, try":  func(ctx context.Context) error { _, err := s.Enter(ctx, tries(mutex("free"))); return err },
		"Enter again": func(ctx context.Context) error { c := mutex("free"); c.Try = 2; _, err := s.Enter(ctx, c); return err },
		"EnterAll": func(ctx context.Context) error {
			_, err := s.EnterAll(ctx, []driver.Claim{mutex("a"), mutex("b")})
			return err
		},
		"Leave":         func(ctx context.Context) error { return s.Leave(ctx, held) },
		"Leave, unseen": func(ctx context.Context) error { return s.Leave(ctx, mutex("unseen")) },
		"Beat": func(ctx context.Context) error {
			return s.Beat(ctx, []driver.Claim{held}, make([]driver.Standing, 1))
		},
		"Line":  func(ctx context.Context) error { _, err := e.Line(ctx, "held"); return err },
		"Evict": func(ctx context.Context) error { return e.Evict(ctx, driver.Entry{Claim: held}) },
		"Load":  func(ctx context.Context) error { _, _, err := e.Load(ctx, "key"); return err },
		"Store": func(ctx context.Context) error { _, err := e.Store(ctx, "key", []byte("x"), 0, 0); return err },
		"List": func(ctx context.Context) error {
			for _, err := range e.List(ctx, "") {
				return err
			}
			return nil
		},
		"Watch": func(ctx context.Context) error { _, err := e.Watch(ctx, "held"); return err },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			from := time.Now()
			err := call(ctx)
			expect(t, what, err, driver.ErrUnreachable)
			if took := time.Since(from); took > time.Second+soon/2 {
				t.Errorf("%s with a second of time came back after %v", what, took)
			}
		})
	}
	t.Run("Await that is called off", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		_, err := s.Await(ctx, waits, last)
		expect(t, "Await", err, context.Canceled)
		if errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Await that its caller called off: %v", err)
		}
	})
}

// A TryLock without a deadline comes back by itself.
func TestATryOfASilentStoreComesBack(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	server := common(t)
	p := faultproxy.New(t, server.Addr())
	c := client(t, []string{p.Addr()}, ttl)
	if err := lock(t, c.Mutex("warm")).Unlock(); err != nil {
		t.Fatal(err)
	}
	p.BlackHole(faultproxy.Both)
	defer p.Heal()
	for range 3 { // in the last the session is over
		from := time.Now()
		_, err := c.Mutex("free").TryLock(context.Background())
		took := time.Since(from)
		t.Logf("TryLock of a silent store with a TTL of %v: %v after %v", ttl, err, took)
		if took > 2*ttl {
			t.Errorf("it came back after %v", took)
		}
		expect(t, "TryLock", err, pawl.ErrUnreachable)
		if errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryLock of a name that nobody holds: %v", err)
		}
	}
}
