package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

type enterFunc = func(context.Context) (driver.Standing, error)

// The reply to Enter is lost after the store carried it out: the repeat is
// recognised as ours, and no second place is taken.
func TestAnAcquireWhoseReplyWasLostIsRecognised(t *testing.T) {
	for _, try := range []bool{false, true} {
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			var calls atomic.Int64
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
					st, err := next(ctx)
					if calls.Add(1) == 1 {
						return driver.Standing{}, driver.ErrUnreachable
					}
					return st, err
				}
			})
			take := c.Mutex("a").Lock
			if try {
				take = c.Mutex("a").TryLock
			}
			l := must(t)(take(t.Context()))
			if n := listed(t, c); n != 1 || calls.Load() != 2 {
				t.Errorf("%d claims after %d calls", n, calls.Load())
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Enter is delayed in the network, ctx ends, Leave arrives first and finds
// nothing, then Enter arrives: no orphan may stay, and one that arrives soon does not
// block others for long.
func TestAnEnterThatLandsAfterItsLeaveIsLeftAgain(t *testing.T) {
	const wait = time.Second
	for _, test := range []struct{ lands, within time.Duration }{
		{lands: wait + defaultTTL/100, within: defaultTTL / 30},
		{lands: wait + defaultTTL/20, within: defaultTTL / 15},
		{lands: 5 * time.Second, within: defaultTTL / 3},
	} {
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			landed := make(chan struct{})
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
					if cl.Name != "late" {
						return next(ctx)
					}
					time.AfterFunc(test.lands, func() {
						next(context.Background())
						close(landed)
					})
					<-ctx.Done()
					return driver.Standing{}, ctx.Err()
				}
			})
			must(t)(c.Mutex("keeps the session").Lock(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err := c.Mutex("late").Lock(ctx)
			wantErr(t, err, context.DeadlineExceeded)
			<-landed
			if n := listed(t, c); n != 2 {
				t.Fatalf("%d claims: the late one did not land", n)
			}
			time.Sleep(test.within)
			synctest.Wait()
			if n := listed(t, c); n != 1 {
				t.Errorf("one that landed after %v is still there %v later", test.lands, test.within)
			}
		})
	}
}

// The same when a repeat was answered in the meantime, and the lock given back:
// the first copy lands after all that.
func TestADuplicateEnterThatLandsAfterUnlockIsLeftAgain(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var calls atomic.Int64
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				if calls.Add(1) == 1 {
					time.AfterFunc(3*time.Second, func() { next(context.Background()) })
					return driver.Standing{}, driver.ErrUnreachable
				}
				return next(ctx)
			}
		})
		if err := must(t)(c.Mutex("a").Lock(t.Context())).Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		time.Sleep(10 * time.Second / 3)
		synctest.Wait()
		if n := listed(t, c); n != 0 {
			t.Error("the orphan is still there")
		}
	})
}

// A claim that only the store knows of, under a name in doubt, is ended, and one
// that is entering right now is not.
func TestStrangersOfTheSessionAreEnded(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var session driver.Session
		r.set(func(r *faultEngine) {
			r.open = func(_ context.Context, next func() (driver.Session, error)) (driver.Session, error) {
				s, err := next()
				session = s
				return s, err
			}
		})
		must(t)(c.Mutex("other").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.enter = func(context.Context, driver.Claim, enterFunc) (driver.Standing, error) {
				return driver.Standing{}, errors.New("broken pipe")
			}
		})
		_, err := c.Mutex("a").TryLock(t.Context())
		if err == nil {
			t.Fatal("locked")
		}
		r.heal()
		stranger := driver.Claim{ID: newID(), Try: 1, Name: "a", Need: 1, Limit: 1, Queue: true}
		time.Sleep(9 * time.Second)
		if _, err := session.Enter(t.Context(), stranger); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := listed(t, c); n != 1 {
			t.Errorf("%d claims: the stranger is still there", n)
		}
	})
}

// A Leave gets no answer, and its repeat finds nothing. Either the first copy gave
// the lock back, or an operator had evicted the holder before it arrived and another
// client has held the lock since: the two cannot be told apart, so Unlock says neither.
func TestUnlockIsUnknownWhereAnUnansweredLeaveMayHaveComeTooLate(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			var calls atomic.Int64
			var rival *Lease
			r.set(func(r *faultEngine) {
				r.leave = func(ctx context.Context, cl driver.Claim, next func(context.Context) error) error {
					if calls.Add(1) > 1 {
						return next(ctx)
					}
					if evicted {
						other := second(t, c)
						evictAll(t, other, cl.Name)
						rival = must(t)(other.Mutex(cl.Name).Lock(t.Context()))
					}
					_ = next(ctx)
					return driver.ErrUnreachable
				}
			})
			l := must(t)(c.Mutex("a").Lock(t.Context()))
			err := l.Unlock()
			wantErr(t, err, ErrUnknown)
			if errors.Is(err, ErrLost) {
				t.Errorf("%v: that is not known", err)
			}
			if calls.Load() != 2 {
				t.Errorf("%d leaves", calls.Load())
			}
			if rival != nil {
				if err := rival.Err(); err != nil {
					t.Errorf("the rival: %v", err)
				}
			}
		})
	}
}

// The first Leave that is answered knows nothing of the claim, and none was sent
// before it: the lock was lost.
func TestUnlockOfAnEvictedLeaseIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		evictAll(t, second(t, c), "a")
		wantErr(t, l.Unlock(), ErrLost)
	})
}

// evictAll breaks every claim on a name.
func evictAll(t *testing.T, c *Client, name string) {
	t.Helper()
	line, err := c.Line(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range line {
		if err := c.Evict(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnlockOfABlackHoleIsUnknownAndSettledBehind(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.blackHole()
		start := time.Now()
		wantErr(t, l.Unlock(), ErrUnknown)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("blocked for %v", took)
		}
		wantErr(t, l.Unlock(), ErrNotHeld)
		r.heal()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := listed(t, c); n != 0 {
			t.Error("not settled")
		}
	})
}

// The context has ended when the store hears of it, so that no rival can start
// while the old holder's context is alive.
func TestTheContextEndsBeforeTheClaimIsLeft(t *testing.T) {
	ends := map[string]func(*Client, *Lease){
		"Unlock": func(_ *Client, l *Lease) { l.Unlock() },
		"Close":  func(c *Client, _ *Lease) { c.Close() },
		"loss":   func(_ *Client, l *Lease) { time.Sleep(11 * time.Second) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
				l := must(t)(c.Mutex("a").Lock(t.Context()))
				r.set(func(r *faultEngine) {
					r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
						return driver.ErrUnreachable
					}
					r.leave = func(ctx context.Context, _ driver.Claim, next func(context.Context) error) error {
						if l.Context().Err() == nil {
							t.Error("left while the context was alive")
						}
						return next(ctx)
					}
				})
				// A rival sees to it for ends that do not go by Leave.
				rival := second(t, c)
				done := make(chan struct{})
				go func() {
					defer close(done)
					must(t)(rival.Mutex("a").Lock(context.Background()))
					if l.Context().Err() == nil {
						t.Error("a rival holds while the context is alive")
					}
				}()
				synctest.Wait()
				end(c, l)
				r.heal()
				<-done
			})
		})
	}
}

func TestACancelledWaitLeavesTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		holder := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Mutex("a").Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if held, ok := errors.AsType[*HeldError](err); !ok || held.Holder == nil || held.Holder.ID != holder.ID() {
			t.Errorf("who: %v", err)
		}
		if errors.Is(err, ErrHeld) {
			t.Error("a cancelled wait is not ErrHeld")
		}
		synctest.Wait()
		if n := listed(t, c); n != 1 {
			t.Errorf("%d claims", n)
		}
		_, err = c.Mutex("a", WithWait(time.Second)).Lock(t.Context())
		wantErr(t, err, ErrHeld)
		synctest.Wait()
		if n := listed(t, c); n != 1 {
			t.Errorf("%d claims", n)
		}
	})
}

// A store that has never answered must not look like a busy lock.
func TestFirstContactFailsFast(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var calls atomic.Int64
		r.set(func(r *faultEngine) {
			r.enter = func(context.Context, driver.Claim, enterFunc) (driver.Standing, error) {
				calls.Add(1)
				return driver.Standing{}, driver.ErrUnreachable
			}
		})
		start := time.Now()
		_, err := c.Mutex("a").Lock(context.Background())
		wantErr(t, err, ErrUnreachable)
		if took := time.Since(start); took > time.Second || calls.Load() != 1+maxRepeats {
			t.Errorf("%d calls in %v", calls.Load(), took)
		}
		r.heal()
		must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
		r.blackHole() // from now on it waits for the store to come back
		time.AfterFunc(time.Minute, r.heal)
		must(t)(c.Mutex("a").Lock(context.Background())).Unlock()
	})
}

// Where the store keeps sessions, one that was opened is an answer: a store that then is
// slow, as with a thousand clients that enter at once, is waited for.
func TestAStoreThatOpenedASessionIsWaitedFor(t *testing.T) {
	for _, bySession := range []bool{false, true} { // else Open need not ask the store
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			c.features.BySession = bySession
			var calls atomic.Int64
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
					if calls.Add(1) <= 10 {
						return driver.Standing{}, driver.ErrUnreachable
					}
					return next(ctx)
				}
			})
			l, err := c.Mutex("a").Lock(context.Background())
			if !bySession {
				wantErr(t, err, ErrUnreachable)
				return
			}
			must(t)(l, err).Unlock()
			if n := calls.Load(); n != 11 {
				t.Errorf("%d Enters", n)
			}
		})
	}
}

// On an engine without a line each further attempt is a further Try, so that a
// late Leave of an earlier one cannot end it.
func TestWithoutALineEachEnterIsAFurtherTry(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.features = &driver.Features{Shared: true}
		d := New(r)
		defer d.Close()
		holder := must(t)(c.Mutex("a").Lock(t.Context()))
		time.AfterFunc(25*time.Second, func() { holder.Unlock() })
		var tries []int
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				if cl.Queue {
					t.Error("asked to queue where there is no line")
				}
				tries = append(tries, cl.Try)
				return next(ctx)
			}
			r.await = func(ctx context.Context) {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
		l := must(t)(d.Mutex("a").Lock(t.Context()))
		for i, try := range tries {
			if try != i+1 {
				t.Fatalf("tries %v", tries)
			}
		}
		if len(tries) < 20 {
			t.Errorf("only %d tries", len(tries))
		}
		l.Unlock()
	})
}

// Enter is held up on its way and repeated, the repeat is granted and then evicted, and
// a rival holds; now the first copy arrives, and the store has a claim with the holder's
// ID again. Whether that waits behind the rival, or is let in after it, it is not the
// hold that was granted: its holder is told with the next beat.
func TestAClaimThatReplacedAnEvictedHoldIsNotTakenForIt(t *testing.T) {
	for _, rivalLeaves := range []bool{false, true} {
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			var calls atomic.Int64
			land := make(chan struct{})
			landed := make(chan struct{})
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
					if calls.Add(1) > 1 {
						return next(ctx)
					}
					go func() { // ends with the test
						<-land
						_, _ = next(context.Background())
						close(landed)
					}()
					return driver.Standing{}, driver.ErrUnreachable
				}
			})
			l := must(t)(c.Mutex("a").Lock(t.Context()))
			apart := New(r.Engine)
			defer apart.Close()
			evictAll(t, apart, "a")
			rival := must(t)(apart.Mutex("a").Lock(t.Context()))
			if rivalLeaves {
				if err := rival.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
			close(land)
			<-landed
			select {
			case <-l.Context().Done():
				wantErr(t, context.Cause(l.Context()), ErrLost)
			case <-time.After(2 * defaultTTL):
				t.Errorf("two TTLs later the evicted holder still holds; the rival has left: %v", rivalLeaves)
			}
			time.Sleep(2 * defaultTTL)
			if line, err := apart.Line(t.Context(), "a"); err != nil || len(line) > 1 || len(line) == 1 && line[0].ID != rival.ID() {
				t.Errorf("what is left in the store: %+v, %v", line, err)
			}
		})
	}
}
