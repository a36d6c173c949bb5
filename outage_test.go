package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A fullStore is one in which List takes for ever, as in a Redis that other
// programs have filled.
type fullStore struct {
	*faultEngine
	lists atomic.Int64
}

func (f *fullStore) List(ctx context.Context, _ string) iter.Seq2[driver.Entry, error] {
	f.lists.Add(1)
	return func(yield func(driver.Entry, error) bool) {
		<-ctx.Done()
		yield(driver.Entry{}, ctx.Err())
	}
}

// A slowList is a store that takes a second to list.
type slowList struct {
	driver.Engine
	lists atomic.Int64
}

func (s *slowList) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	s.lists.Add(1)
	time.Sleep(time.Second)
	return s.Engine.List(ctx, prefix)
}

func TestWatchKeepsAStoreBusyForATenthOfTheTimeAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowList{Engine: memlock.New()}
		c := New(s)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		for _, err := range c.Watch(ctx, "") {
			t.Error(err)
		}
		if n := s.lists.Load(); n > 11 || n < 9 {
			t.Errorf("looked %d times in 100 s", n)
		}
	})
}

// giveUp makes n acquires of names, all at a time, that end by their ctx.
func giveUp(t *testing.T, c *Client, n int, wait time.Duration, name func(i int) string) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if _, err := c.Mutex(name(i)).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("lock %d in a black hole: %v", i, err)
			}
		})
	}
	all.Wait()
}

// Many acquires give up while the store stalls: their departures refuse no acquire once
// the store answers, and nothing lists all its names.
func TestAcquiresThatGaveUpInAStallDoNotRefuseLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullStore{faultEngine: &faultEngine{Engine: memlock.New()}}
		c := New(f)
		defer c.Close()
		must(t)(c.Mutex("before").Lock(t.Context())).Unlock()
		f.blackHole()
		giveUp(t, c, 2*maxDepartures, 400*time.Millisecond, func(i int) string { return fmt.Sprint("stalled ", i) })
		f.heal()
		for range 300 { // three TTLs, in steps of 100 ms
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for _, name := range []string{"before", "stalled 7"} {
				l, err := c.Mutex(name).Lock(ctx)
				if err != nil {
					t.Fatalf("after the stall: %v", err)
				}
				if err := l.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			time.Sleep(100 * time.Millisecond)
		}
		if n := f.lists.Load(); n > 0 {
			t.Errorf("List was called %d times", n)
		}
		if n := openDepartures(c); n > 0 {
			t.Errorf("%d departures are still there", n)
		}
	})
}

// While the store is silent for longer than a TTL, acquires are told so instead of
// being remembered without limit; with its first answer that is over.
func TestASilentStoreIsOwedNoMoreThanItCanBeToldLater(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("before").Lock(t.Context())).Unlock()
		r.blackHole()
		name := func(i int) string { return fmt.Sprint("name ", i) }
		giveUp(t, c, maxDepartures, time.Second, name)
		time.Sleep(2 * defaultTTL)
		giveUp(t, c, maxDepartures, time.Second, name)
		if n := openDepartures(c); n > maxDepartures {
			t.Errorf("%d departures", n)
		}
		_, err := c.Mutex("another").TryLock(t.Context())
		wantErr(t, err, ErrUnreachable)
		r.heal()
		start := time.Now()
		must(t)(c.Mutex("another").Lock(t.Context())).Unlock()
		if took := time.Since(start); took > defaultTTL/3 {
			t.Errorf("the first lock after the silence took %v", took)
		}
	})
}

// A Leave that is never answered, while the store answers everything else, as when
// one shard of it is away, is not repeated for ever. Where claims live by their
// session, that session ends, once it holds nothing any more, and the claim with it.
func TestNoDepartureIsRepeatedForEver(t *testing.T) {
	for _, bySession := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &faultEngine{Engine: memlock.New()}
			can := r.Features()
			can.BySession = bySession
			r.features = &can
			c := New(r)
			defer c.Close()
			var leaves atomic.Int64
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
					st, err := next(ctx)
					if cl.Name == "stuck" {
						return driver.Standing{}, driver.ErrUnreachable
					}
					return st, err
				}
				r.leave = func(ctx context.Context, cl driver.Claim, next func(context.Context) error) error {
					if cl.Name == "stuck" {
						leaves.Add(1)
						return driver.ErrUnreachable
					}
					return next(ctx)
				}
			})
			held := must(t)(c.Mutex("held").Lock(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Mutex("stuck").Lock(ctx)
			wantErr(t, err, context.DeadlineExceeded)
			wantErr(t, err, ErrUnreachable)
			time.Sleep(4 * defaultTTL)
			if n := openDepartures(c); n > 0 && !bySession {
				t.Errorf("%d departures after four TTLs", n)
			}
			before := leaves.Load()
			time.Sleep(10 * defaultTTL)
			if more := leaves.Load() - before; before == 0 || more > 0 && !bySession || more > 40 {
				t.Errorf("%d leaves, and %d later", before, more)
			}
			if err := held.Err(); err != nil {
				t.Errorf("another lock of that session: %v", err)
			}
			other := must(t)(c.Mutex("another").Lock(t.Context()))
			if same := other.cl.s == held.cl.s; same == bySession {
				t.Errorf("claims live by the session: %v; a later lock shares it: %v", bySession, same)
			}
			if err := errors.Join(held.Unlock(), other.Unlock()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n := len(c.allSessions()); n != 1 {
				t.Errorf("%d sessions", n)
			}
			before = leaves.Load()
			time.Sleep(10 * defaultTTL)
			if more := leaves.Load() - before; more > 0 {
				t.Errorf("%d leaves when the session was over", more)
			}
		})
	}
}

// openDepartures counts what the client's sessions have still to leave.
func openDepartures(c *Client) (n int) {
	for _, s := range c.allSessions() {
		s.mu.Lock()
		n += len(s.departures.all)
		s.mu.Unlock()
	}
	return n
}

// A lock that ends with its ctx says that the lock is held only if the store said so.
func TestALockThatTheStoreNeverAnsweredIsNotHeld(t *testing.T) {
	for _, fair := range []bool{false, true} {
		var opts []Option
		if fair {
			opts = append(opts, WithFair())
		}
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			must(t)(c.Mutex("before").Lock(t.Context())).Unlock()
			r.blackHole()
			var all sync.WaitGroup
			for range 3 { // one asks the store, the others wait for it
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_, err := c.Mutex("free").Lock(ctx)
					wantErr(t, err, context.DeadlineExceeded)
					wantErr(t, err, ErrUnreachable)
					if _, held := errors.AsType[*HeldError](err); held || errors.Is(err, ErrHeld) {
						t.Errorf("nobody holds it: %v", err)
					}
				})
				all.Go(func() {
					_, err := c.Mutex("free", WithWait(2*time.Second)).Lock(t.Context())
					wantErr(t, err, ErrUnreachable)
					wantErr(t, err, ErrHeld) // as WithWait promises, but not in these words
					if _, held := errors.AsType[*HeldError](err); held || strings.Contains(err.Error(), "held") {
						t.Errorf("nobody holds it: %v", err)
					}
				})
			}
			all.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, err := c.Mutex("free").Lock(ctx)
			wantErr(t, err, context.Canceled)
			if errors.Is(err, ErrUnreachable) {
				t.Errorf("the store had a millisecond: %v", err)
			}
		}, opts...)
	}
}

// A waiter that the store told of the holder, and that has heard nothing since, says both.
func TestAWaiterOnAStoreThatFellSilentSaysSo(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		apart := New(r.Engine) // the store answers it all the time
		defer apart.Close()
		holder := must(t)(apart.Mutex("a").Lock(t.Context()))
		var all sync.WaitGroup
		for _, silent := range []bool{false, true} {
			for range 2 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
					defer cancel()
					_, err := c.Mutex("a").Lock(ctx)
					wantErr(t, err, context.DeadlineExceeded)
					if held, ok := errors.AsType[*HeldError](err); !ok || held.Holder == nil || held.Holder.ID != holder.ID() {
						t.Errorf("who holds it: %v", err)
					}
					if errors.Is(err, ErrUnreachable) != silent {
						t.Errorf("silent %v: %v", silent, err)
					}
				})
			}
			if silent {
				time.Sleep(time.Second)
				r.blackHole()
				r.set(func(r *faultEngine) { r.await = func(ctx context.Context) { <-ctx.Done() } })
			}
			all.Wait()
		}
		r.heal()
	})
}

// A caller that does not want to wait is not kept by a store that does not answer.
func TestATryOnASilentStoreEndsWithinATTL(t *testing.T) {
	for _, ttl := range []time.Duration{6 * time.Second, time.Hour} {
		for _, contacted := range []bool{false, true} { // else not even a session can be opened
			withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
				if contacted {
					must(t)(c.Mutex("before").Lock(t.Context())).Unlock()
				} else {
					r.set(func(r *faultEngine) {
						r.open = func(ctx context.Context, _ func() (driver.Session, error)) (driver.Session, error) {
							<-ctx.Done()
							return nil, ctx.Err()
						}
					})
				}
				r.blackHole()
				for what, try := range map[string]func() (*Lease, error){
					"TryLock":    func() (*Lease, error) { return c.Mutex("a").TryLock(context.Background()) },
					"TryRLock":   func() (*Lease, error) { return c.RWMutex("b").TryRLock(context.Background()) },
					"TryAcquire": func() (*Lease, error) { return c.Semaphore("c", 3).TryAcquire(context.Background(), 2) },
				} {
					start := time.Now()
					_, err := try()
					wantErr(t, err, ErrUnreachable)
					if took := time.Since(start); took > min(ttl, maxTry)+time.Second {
						t.Errorf("%s came back after %v, the TTL is %v", what, took, ttl)
					}
				}
				r.heal()
			}, WithTTL(ttl))
		}
	}
}

// The function that Do runs sees the caller's end as it is: a deadline is a deadline,
// also for contexts made of its own, and a loss is a loss.
func TestDoTellsADeadlineFromACancel(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		mine := errors.New("mine")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, mine)
		defer cancel()
		err := c.Mutex("a").Do(ctx, func(ctx context.Context, _ *Lease) error {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(child), mine) || !errors.Is(context.Cause(ctx), mine) {
				t.Errorf("a context of its own: %v, cause %v", child.Err(), context.Cause(child))
			}
			return ctx.Err()
		})
		wantErr(t, err, context.DeadlineExceeded)
		err = c.Mutex("a").Do(t.Context(), func(ctx context.Context, _ *Lease) error {
			evictAll(t, second(t, c), "a")
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), ErrLost) {
				t.Errorf("a loss: %v, cause %v", ctx.Err(), context.Cause(ctx))
			}
			return nil
		})
		wantErr(t, err, ErrLost)
	})
}

// Claims that could not be left block other clients for a while: Close says so, but not
// where there was nothing to leave.
func TestCloseTellsWhatItCouldNotGiveBack(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &faultEngine{Engine: memlock.New()}
			c := New(r)
			l := must(t)(c.Mutex("a").Lock(t.Context()))
			if !held {
				l.Unlock()
			}
			r.set(func(r *faultEngine) { r.close = driver.ErrUnreachable })
			if err := c.Close(); errors.Is(err, ErrUnreachable) != held {
				t.Errorf("held %v: Close: %v", held, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a store that takes as long as the lease lasts
		r := &faultEngine{Engine: memlock.New()}
		c := New(r, WithTTL(time.Second))
		must(t)(c.Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) { r.close = context.DeadlineExceeded })
		if err := c.Close(); err != nil {
			t.Errorf("what was held has expired by now: %v", err)
		}
	})
}
