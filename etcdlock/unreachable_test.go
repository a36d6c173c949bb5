package etcdlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// When a store falls silent, every call of the engine returns ErrUnreachable before long
// after its ctx has ended.
func TestASilentStoreIsUnreachable(t *testing.T) {
	t.Parallel()
	server := sharedEtcd(t)
	p := faultproxy.New(t, server.Addr())
	e := engine(t, []string{p.Addr()})
	s := open(t, e, longTTL)
	held := mutex("held")
	hold(t, s, held)
	hold(t, s, mutex("busy"))
	waits := mutex("busy")
	last := wait(t, s, waits)
	p.BlackHole(faultproxy.Both)
	t.Cleanup(p.Heal) // after the last call
	for what, call := range map[string]func(ctx context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: longTTL})
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
				t.Errorf("%s with a timeout of a second returned after %v", what, took)
			}
		})
	}
	t.Run("Await that is cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		_, err := s.Await(ctx, waits, last)
		expect(t, "Await", err, context.Canceled)
		if errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Await that its caller cancelled: %v", err)
		}
	})
}

// A TryLock without a deadline returns by itself.
func TestATryOnASilentStoreReturns(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	server := sharedEtcd(t)
	p := faultproxy.New(t, server.Addr())
	c := client(t, []string{p.Addr()}, ttl)
	if err := lock(t, c.Mutex("warm")).Unlock(); err != nil {
		t.Fatal(err)
	}
	p.BlackHole(faultproxy.Both)
	defer p.Heal()
	for range 3 { // in the last the session has expired
		from := time.Now()
		_, err := c.Mutex("free").TryLock(context.Background())
		took := time.Since(from)
		t.Logf("TryLock on a silent store with a TTL of %v: %v after %v", ttl, err, took)
		if took > 2*ttl {
			t.Errorf("it returned after %v", took)
		}
		expect(t, "TryLock", err, pawl.ErrUnreachable)
		if errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryLock of a name that nobody holds: %v", err)
		}
	}
}

// The client retries without end where nothing listens. A caller without a deadline must
// get an error all the same, as on every other store.
func TestCallsWithoutADeadlineReportAnUnreachableServer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"refused": func(p *faultproxy.Proxy) { p.Refuse(); p.Reset() },
		"silent":  func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faultproxy.New(t, sharedEtcd(t).Addr())
			e := engine(t, []string{p.Addr()})
			if _, _, err := e.Load(t.Context(), "k"); err != nil { // the server answers
				t.Fatal(err)
			}
			fault(p)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in place of no deadline
			defer cancel()
			var all sync.WaitGroup
			for what, call := range map[string]func() error{
				"List": func() (err error) {
					for _, err = range e.List(ctx, "") {
						break
					}
					return err
				},
				"Load":   func() error { _, _, err := e.Load(ctx, "k"); return err },
				"Store":  func() error { _, err := e.Store(ctx, "k", []byte("v"), 0, time.Hour); return err },
				"delete": func() error { _, err := e.Store(ctx, "k", nil, 1, 0); return err },
				"Evict":  func() error { return e.Evict(ctx, driver.Entry{Claim: driver.Claim{Name: "n", ID: newID()}}) },
			} {
				all.Go(func() {
					if err := call(); !errors.Is(err, driver.ErrUnreachable) {
						t.Errorf("%s: %v, not ErrUnreachable", what, err)
					}
				})
			}
			all.Wait()
			p.Heal()
			p.Reset()
		})
	}
}
