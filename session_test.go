package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// The machine wakes; the beat under way fails before the keeper's tick.
func TestABeatThatFailsOnWakingDoesNotDisarmTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &faultEngine{Engine: memlock.New()}
		c := New(r)
		defer c.Close()
		var slept atomic.Int64
		c.asleep = func(time.Time) time.Duration { return time.Duration(slept.Load()) }
		reset := make(chan struct{})
		r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, _ func(context.Context) error) error {
			select {
			case <-reset:
				return driver.ErrUnreachable
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(3400 * time.Millisecond) // a beat is under way
		slept.Add(int64(8 * time.Hour))
		close(reset) // the connection is reset at once
		synctest.Wait()
		select {
		case <-l.Context().Done():
		case <-time.After(time.Hour):
			t.Error("Done was not closed within an hour of the deadline")
		}
	})
}

// The same without sleep: the answer of a beat comes in the moment of the deadline.
func TestABeatThatFailsAtTheDeadlineDoesNotDisarmIt(t *testing.T) {
	for range 50 {
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			start := time.Now()
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, _ func(context.Context) error) error {
				// an engine whose client answers a little after its ctx has ended
				time.Sleep(time.Until(start.Add(9500 * time.Millisecond)))
				return driver.ErrUnreachable
			}
			l := must(t)(c.Mutex("a").Lock(t.Context()))
			select {
			case <-l.Context().Done():
			case <-time.After(time.Minute):
				t.Error("Done was not closed within a minute")
			}
		})
		if t.Failed() {
			return
		}
	}
}

// lostEnter makes one Enter on "a" that is never answered, one second long.
func lostEnter(t *testing.T, c *Client, r *faultEngine) {
	must(t)(c.Mutex("keeps the session").Lock(t.Context()))
	r.set(func(r *faultEngine) {
		r.enter = func(ctx context.Context, _ driver.Claim, _ enterFunc) (driver.Standing, error) {
			<-ctx.Done()
			return driver.Standing{}, ctx.Err()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Mutex("a").Lock(ctx)
	wantErr(t, err, context.DeadlineExceeded)
	r.heal()
}

// Engines without a line: the heir of a place enters with a Try that was answered.
func TestAnHeirWithoutALineEntersWithAFurtherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memlock.New().Features()
		f.Queue = false
		r := &faultEngine{Engine: memlock.New(), features: &f}
		c := New(r)
		defer c.Close()
		rival := must(t)(another(t, r).Mutex("a").Lock(t.Context()))
		type asked struct {
			id  string
			try int
		}
		answered := map[asked]bool{}
		r.set(func(r *faultEngine) {
			r.await = func(ctx context.Context) { <-ctx.Done() }
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				if answered[asked{cl.ID, cl.Try}] {
					t.Errorf("Try %d was answered not held before, and is entered again", cl.Try)
				}
				st, err := next(ctx)
				if err == nil {
					answered[asked{cl.ID, cl.Try}] = true
				}
				return st, err
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		first := queue(t, ctx, c.Mutex("a").Lock)
		ctx2, cancel2 := context.WithCancel(t.Context())
		heir := queue(t, ctx2, c.Mutex("a").Lock)
		cancel()
		<-first
		synctest.Wait()
		cancel2()
		<-heir
		rival.Unlock()
	})
}

func another(t *testing.T, e driver.Engine) *Client {
	d := New(e)
	t.Cleanup(func() { d.Close() })
	return d
}

// A place that is gone promises nothing to the next one.
func TestAPlaceThatIsGonePromisesNothingToTheNext(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		rival := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		got := queue(t, t.Context(), c.Mutex("a").Lock)
		var sent time.Time
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				sent = time.Now()
				st, err := next(ctx)
				st.Valid = 2 * time.Second // all that the new place promises
				return st, err
			}
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, _ func(context.Context) error) error {
				<-ctx.Done() // an answer would promise more, and so short a hold is beaten for at once
				return ctx.Err()
			}
		})
		for e := range c.List(t.Context(), "a") {
			if !e.Held {
				if err := c.Evict(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait() // it stands in line again
		rival.Unlock()
		l := <-got
		if d := l.Deadline().Sub(sent); d > 2*time.Second {
			t.Errorf("deadline %v after the Enter that promised 2s", d)
		}
	})
}

// Where claims live by their session, a beat that is answered while an Enter is under way
// promises nothing to the claim of that Enter: it did not ask for it.
func TestABeatBesideAnEnterPromisesItNothing(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("other").Lock(t.Context())) // opens the session
		began, beaten := time.Now(), make(chan struct{})
		var once sync.Once
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				err := next(ctx)
				once.Do(func() { close(beaten) })
				return err
			}
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				st, err := next(ctx)
				<-beaten
				synctest.Wait() // the beat's answer is taken in
				st.Valid = 0
				return st, err
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		if d := l.Deadline().Sub(began); d > 10*time.Second {
			t.Errorf("the deadline is %v after the session was promised for 10s", d)
		}
	})
}

// One lease's observer makes another lease's context late.
func TestASlowObserverMakesNoOtherContextLate(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		slow := ObserverFunc(func(e Event) {
			if e.Kind == Lost {
				time.Sleep(2 * time.Second)
			}
		})
		start := time.Now()
		var wg sync.WaitGroup
		for _, n := range []string{"a", "b", "c"} {
			l := must(t)(c.Mutex(n, WithObserver(slow)).Lock(t.Context()))
			wg.Go(func() {
				<-l.Context().Done()
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("%s ended %v after it was promised for 10s", n, took)
				}
			})
		}
		r.blackHole()
		wg.Wait()
		r.heal()
		time.Sleep(time.Minute) // the observers go on
	})
}

// Fixed lease: the beat at the grant says Gone.
func TestAFixedGrantThatIsGoneAtItsBeatIsNoGrant(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		rival := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		var evicted atomic.Bool
		var theft *Lease
		got := queue(t, t.Context(), c.Mutex("a", WithoutRenewal()).Lock)
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				if !evicted.Load() && len(live) == 1 && live[0].ID != rival.ID() {
					for e := range r.Engine.List(ctx, "a") {
						if e.ID == live[0].ID && e.Held {
							evicted.Store(true)
							if err := r.Engine.Evict(ctx, e); err != nil {
								t.Error(err)
							}
							theft = must(t)(second(t, c).Mutex("a").Lock(t.Context()))
						}
					}
				}
				return next(ctx)
			}
		})
		rival.Unlock()
		synctest.Wait()
		if !evicted.Load() {
			t.Fatal("not evicted")
		}
		select {
		case l := <-got:
			if l.Err() == nil && theft.Err() == nil {
				t.Error("both alive though the store said Gone before the grant was taken")
			}
		default: // it waits again
			theft.Unlock()
			<-got
		}
	})
}

// A beat of the old session is still under way when its claim joins the new one.
func TestABeatOfTheOldSessionDoesNotTouchAMovedClaim(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			lost := make(chan struct{})
			r := &faultEngine{Engine: memlock.New(), lost: lost}
			c := New(r, WithFair())
			defer c.Close()
			d := New(r.Engine)
			defer d.Close()
			rival := must(t)(d.Mutex("a").Lock(t.Context()))
			got := queue(t, t.Context(), c.Mutex("a").Lock)
			r.set(func(r *faultEngine) {
				r.lost = nil
				r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
					<-ctx.Done()
					return ctx.Err()
				}
			})
			time.Sleep(3400 * time.Millisecond) // a beat is under way
			close(lost)
			synctest.Wait()
			r.heal()
			rival.Unlock()
			(<-got).Unlock()
		})
	}
}

// Enter fails in the store's client because its session was closed under it.
func TestAnEnterOnASessionThatEndedUnderItGoesOnInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		r := &faultEngine{Engine: memlock.New(), lost: lost}
		c := New(r)
		defer c.Close()
		must(t)(c.Mutex("x").Lock(t.Context()))
		first := true
		r.set(func(r *faultEngine) {
			r.lost = nil
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				if first {
					first = false
					time.Sleep(time.Second)
					return driver.Standing{}, io.ErrClosedPipe
				}
				return next(ctx)
			}
		})
		got := make(chan error, 1)
		go func() {
			_, err := c.Mutex("a").Lock(t.Context())
			got <- err
		}()
		synctest.Wait()
		close(lost)
		if err := <-got; err != nil {
			t.Errorf("the session ended, not the wait: %v", err)
		}
	})
}

// A waiter is not promoted after a failed runner while a tried-for claim holds.
func TestSomebodyGoesToTheLineWhenTheRunnerFails(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var first atomic.Bool
		first.Store(true)
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				if cl.Queue && first.Swap(false) {
					time.Sleep(5 * time.Millisecond)
					return driver.Standing{}, driver.ErrDenied
				}
				return next(ctx)
			}
		})
		m := c.Mutex("a")
		go m.Lock(t.Context()) // fails after 5 ms
		synctest.Wait()
		held := must(t)(m.TryLock(t.Context()))
		local := queue(t, t.Context(), m.Lock)
		time.Sleep(time.Second)
		rival := queue(t, t.Context(), second(t, c).Mutex("a").Lock)
		held.Unlock()
		select {
		case l := <-local:
			l.Unlock()
			(<-rival).Unlock()
		case l := <-rival:
			t.Error("the rival came a second later and was first")
			l.Unlock()
			(<-local).Unlock()
		}
	})
}

// A session that is gone time and again: TryLock must come back.
func TestTryLockEndsThoughEverySessionIsGone(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var n atomic.Int64
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, _ enterFunc) (driver.Standing, error) {
				if n.Add(1) > 10000 {
					time.Sleep(time.Hour)
					return driver.Standing{}, driver.ErrDenied
				}
				return driver.Standing{}, driver.ErrGone
			}
		})
		if _, err := c.Mutex("a").TryLock(t.Context()); err == nil || n.Load() > 10 {
			t.Errorf("%d sessions opened: %v", n.Load(), err)
		}
	})
}

// Enter promises nothing and the session's own promise is old: asked in a loop.
func TestAStalePromiseIsNotAskedForInALoop(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var n atomic.Int64
		must(t)(c.Mutex("x").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				if err := next(ctx); err != nil { // prolongs
					return err
				}
				clear(out)
				return driver.ErrUnreachable // and is not heard
			}
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				time.Sleep(time.Millisecond)
				n.Add(1)
				st, err := next(ctx)
				st.Valid = 0
				return st, err
			}
		})
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Mutex("a").Lock(ctx)
		if n.Load() > 50 {
			t.Errorf("%d Enters in a second: %v", n.Load(), err)
		}
	})
}

// An Enter that is Gone forgets the one before it that was not answered.
func TestAnEnterThatIsGoneRemembersTheUnansweredOne(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var n atomic.Int64
		var first driver.Claim
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next enterFunc) (driver.Standing, error) {
				switch n.Add(1) {
				case 1:
					first = cl
					time.AfterFunc(2*time.Second, func() { next(context.Background()) })
					return driver.Standing{}, driver.ErrUnreachable
				case 2:
					return driver.Standing{Gone: true}, nil
				}
				return next(ctx)
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(3 * time.Second)
		l.Unlock()
		time.Sleep(5 * time.Second)
		for e := range c.List(t.Context(), "") {
			if e.ID == first.ID {
				t.Error("nobody leaves the late one")
			}
		}
	})
}

// WithWait over an unreachable store.
func TestAWaitThatEndsOverAFaultSaysWhoHolds(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("x").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				return driver.Standing{}, driver.ErrUnreachable
			}
		})
		_, err := c.Mutex("a", WithWait(time.Second)).Lock(t.Context())
		_, ok := errors.AsType[*HeldError](err)
		t.Logf("%v; held error %v, ErrHeld %v", err, ok, errors.Is(err, ErrHeld))
	})
}

// A tardy ctx is told by its timer a little after its deadline, as on a busy machine.
type tardy struct {
	context.Context
	at time.Time
}

func (c tardy) Deadline() (time.Time, bool) { return c.at, true }

// A connection that was given ctx's deadline fails at it, before ctx itself has ended:
// that is the end of the wait, and no fault of the store.
func TestAWaitThatEndsInACallBlamesNobody(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("other").Lock(t.Context())) // the first contact has rules of its own
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, _ enterFunc) (driver.Standing, error) {
				at, _ := ctx.Deadline()
				time.Sleep(time.Until(at))
				return driver.Standing{}, fmt.Errorf("%w: %w", driver.ErrUnreachable, os.ErrDeadlineExceeded)
			}
		})
		at := time.Now().Add(time.Second / 10) // too short to call the store silent
		late, cancel := context.WithDeadline(t.Context(), at.Add(time.Millisecond))
		defer cancel()
		_, err := c.Mutex("name").Lock(tardy{late, at})
		wantErr(t, err, context.DeadlineExceeded)
		if errors.Is(err, driver.ErrUnreachable) {
			t.Error(err)
		}
	})
}
