package pawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A beat goes out for a claim that waits and is answered so; while the answer is on its
// way the claim's turn comes.
func TestABeatThatWasSentForAWaiterIsNotALoss(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		apart := New(r.Engine)
		defer apart.Close()
		rival := must(t)(apart.Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				err := next(ctx)
				time.Sleep(100 * time.Millisecond) // the reply is on its way
				return err
			}
		})
		time.AfterFunc(defaultTTL/3+50*time.Millisecond, func() { rival.Unlock() })
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("nobody took it away: %v", err)
		}
		if line, err := apart.Line(t.Context(), "a"); err != nil || len(line) != 1 || line[0].ID != l.ID() {
			t.Errorf("store: %+v %v", line, err)
		}
	})
}

// An engine that rounds a TTL up beats as seldom as the longer one asks for.
func TestAWaiterOnAnEngineThatRoundsUpIsNotToldOfSilence(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.open = func(ctx context.Context, _ func() (driver.Session, error)) (driver.Session, error) {
				return r.Engine.Open(ctx, driver.SessionOptions{ID: newID(), TTL: 3 * time.Second})
			}
		})
		apart := New(r.Engine)
		defer apart.Close()
		must(t)(apart.Mutex("a").Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 4900*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("a").Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("the store answers everything: %v", err)
		}
	}, WithTTL(time.Second))
}

// A goroutine's time ends while it waits in the process behind another, whose Enter was
// sent a moment ago: the goroutine has waited long, the store has not been silent long.
func TestAWaiterBehindAnEnterUnderWayIsNotToldOfSilence(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		m := c.Mutex("a")
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				select { // 20 ms there and back
				case <-time.After(20 * time.Millisecond):
					return next(ctx)
				case <-ctx.Done():
					return driver.Standing{}, ctx.Err()
				}
			}
		})
		first := must(t)(m.Lock(t.Context()))
		// b goes to the engine's line after 20 ms, c and d wait for it
		bq := queue(t, t.Context(), m.Lock)
		time.Sleep(time.Second)
		ends := make(chan error, 2)
		start := time.Now()
		for range 2 {
			go func() {
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(5*time.Second+35*time.Millisecond))
				defer cancel()
				_, err := m.Lock(ctx)
				ends <- err
			}()
			synctest.Wait()
		}
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		first.Unlock()
		b := <-bq
		time.Sleep(21 * time.Millisecond) // its turn is over: c goes to the store
		b.Unlock()
		for range 2 {
			err := <-ends
			wantErr(t, err, context.DeadlineExceeded)
			if errors.Is(err, ErrUnreachable) {
				t.Errorf("the store answers within 20 ms: %v", err)
			}
		}
	})
}

type multiEngine struct {
	*faultEngine
	silent atomic.Bool
}

type multiSession struct {
	driver.Session
	m *multiEngine
}

func (m *multiEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := m.faultEngine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &multiSession{s, m}, nil
}

func (s *multiSession) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if s.m.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Session.(*faultSession).Session.(driver.Multi).EnterAll(ctx, cs)
}

func TestLockAllOnASilentStoreIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &multiEngine{faultEngine: &faultEngine{Engine: memlock.New()}}
		c := New(m)
		defer c.Close()
		l, err := c.LockAll(t.Context(), []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		l.Unlock()
		m.silent.Store(true)
		m.blackHole()
		d := New(m, WithWait(2*time.Second))
		defer d.Close()
		_, err = d.LockAll(t.Context(), []string{"a", "b"})
		if _, held := errors.AsType[*HeldError](err); held || !errors.Is(err, ErrUnreachable) {
			t.Errorf("WithWait: nobody holds it: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = c.LockAll(ctx, []string{"a", "b"})
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("ctx: the store is silent: %v", err)
		}
		m.heal()
		m.silent.Store(false)
	})
}

func TestCloseTellsOfAnUnlockThatWasNotAnswered(t *testing.T) {
	silent := 0
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			r := &faultEngine{Engine: memlock.New()}
			c := New(r)
			l := must(t)(c.Mutex("a").Lock(t.Context()))
			r.blackHole()
			r.set(func(r *faultEngine) { r.close = driver.ErrUnreachable })
			wantErr(t, l.Unlock(), ErrUnknown)
			if err := c.Close(); !errors.Is(err, ErrUnreachable) {
				silent++
			}
		})
	}
	if silent > 0 {
		t.Errorf("%d of 200 Closes said nothing", silent)
	}
}

// The hold was evicted and a rival has the lock when an Enter that got no answer lands,
// and Unlock leaves what that has made.
func TestUnlockOfAnEvictedHoldThatALateEnterReplacedIsNotNil(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var calls atomic.Int64
		var late enterFunc
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				if calls.Add(1) == 1 {
					late = next
					return driver.Standing{}, driver.ErrUnreachable
				}
				return next(ctx)
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		apart := New(r.Engine)
		defer apart.Close()
		evictAll(t, apart, "a")
		rival := must(t)(apart.Mutex("a").Lock(t.Context())) // works while l's holder does
		late(context.Background())                           // the first copy lands behind it
		if err := l.Unlock(); err == nil {
			t.Errorf("evicted, a rival holds (%v), and Unlock is nil", rival.Err())
		}
	})
}

// Claims live by their session. An Unlock could not be told for longer than it is repeated;
// a waiter of the same session stands behind what is left of it, and keeps it alive.
func TestAWaiterDoesNotKeepAliveWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &faultEngine{Engine: memlock.New()}
		can := r.Features()
		can.BySession = true
		r.features = &can
		c := New(r)
		defer c.Close()
		var mu sync.Mutex
		var all []driver.Claim // of the first session: its beat prolongs them, as in etcd
		var first driver.Session
		r.set(func(r *faultEngine) {
			r.open = func(_ context.Context, next func() (driver.Session, error)) (driver.Session, error) {
				s, err := next()
				if first == nil {
					first = s.(*faultSession).Session
				}
				return s, err
			}
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				mu.Lock()
				all = append(all, cl)
				mu.Unlock()
				st, err := next(ctx)
				st.Valid = 0
				return st, err
			}
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				mu.Lock()
				_ = first.Beat(ctx, all, make([]driver.Standing, len(all)))
				mu.Unlock()
				return next(ctx)
			}
			r.leave = func(context.Context, driver.Claim, func(context.Context) error) error { return driver.ErrUnreachable }
		})
		wantErr(t, must(t)(c.Mutex("a").Lock(t.Context())).Unlock(), ErrUnknown)
		time.AfterFunc(3*defaultTTL, func() { r.set(func(r *faultEngine) { r.leave = nil }) }) // the store is well again
		ctx, cancel := context.WithTimeout(t.Context(), 20*defaultTTL)
		defer cancel()
		l, err := c.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatalf("17 TTLs after the store was well again: %v", err)
		}
		l.Unlock()
	})
}
