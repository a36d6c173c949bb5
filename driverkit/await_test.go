package driverkit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A fakeSession is a backend whose looks answer what the test says.
type fakeSession struct {
	ended chan struct{}

	mu     sync.Mutex // guards what follows
	looks  int
	answer driver.Standing
	during func() // called by the next look
}

func newFakeSession() *fakeSession {
	return &fakeSession{ended: make(chan struct{}), answer: behind("aaaaaaaabbbb", time.Hour)}
}

func (f *fakeSession) Ended() <-chan struct{} { return f.ended }

func (f *fakeSession) Look(context.Context, driver.Claim) (driver.Standing, error) {
	f.mu.Lock()
	f.looks++
	st, during := f.answer, f.during
	f.during = nil
	f.mu.Unlock()
	if during != nil {
		during()
	}
	return st, nil
}

func (f *fakeSession) answers(st driver.Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = st
}

func (f *fakeSession) looked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

// A call is one Await under way.
type call struct {
	done bool
	st   driver.Standing
	err  error
	took time.Duration
}

// await starts an Await of a claim that was seen behind another one for an hour.
func await(ctx context.Context, b driverkit.Backend, w *driverkit.Waiter, sub *driverkit.Subscription) *call {
	c, began := &call{}, time.Now()
	go func() { // ends by the end of the test, or synctest fails
		c.st, c.err = driverkit.Await(ctx, b, w, sub, driver.Claim{ID: "c", Try: 1, Name: "n"}, behind("aaaaaaaabbbb", time.Hour))
		c.took, c.done = time.Since(began), true
	}()
	synctest.Wait()
	return c
}

var held = driver.Standing{Held: true, Token: 7}

func TestAwaitLooksWhenItMustAndOnlyThen(t *testing.T) {
	for _, c := range []struct {
		what  string
		wait  func(f *fakeSession, w *driverkit.Waiter)
		looks int
	}{
		{"nothing happens", func(*fakeSession, *driverkit.Waiter) {}, 1},
		{"a wake", func(_ *fakeSession, w *driverkit.Waiter) { w.Wake() }, 2},
		{"two wakes at once", func(_ *fakeSession, w *driverkit.Waiter) { w.Wake(); w.Wake() }, 2},
		{"a wake during a look", func(f *fakeSession, w *driverkit.Waiter) { f.during = w.Wake; w.Wake() }, 3},
		{"the pause is over", func(*fakeSession, *driverkit.Waiter) { time.Sleep(time.Hour) }, 2},
		{"a beat postpones the look", func(_ *fakeSession, w *driverkit.Waiter) {
			time.Sleep(30 * time.Minute)
			w.Beaten(time.Now(), time.Hour, "aaaaaaaa", time.Hour)
			time.Sleep(45 * time.Minute)
		}, 1},
		{"a beat brings the look forward", func(_ *fakeSession, w *driverkit.Waiter) {
			w.Beaten(time.Now(), time.Minute, "aaaaaaaa", time.Hour)
			time.Sleep(2 * time.Minute)
		}, 2},
		{"a beat suspects the line", func(_ *fakeSession, w *driverkit.Waiter) {
			w.Suspect(time.Minute)
			time.Sleep(2 * time.Minute)
		}, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, w := newFakeSession(), &driverkit.Waiter{}
				ctx, cancel := context.WithCancel(t.Context())
				a := await(ctx, f, w, nil)
				c.wait(f, w)
				synctest.Wait()
				if got := f.looked(); got != c.looks || a.done {
					t.Errorf("%d looks, not %d; returned: %v", got, c.looks, a.done)
				}
				cancel()
				synctest.Wait()
				if !a.done || !errors.Is(a.err, context.Canceled) {
					t.Errorf("after the end of ctx: returned %v, %v", a.done, a.err)
				}
			})
		})
	}
}

func TestAwaitReturnsWhatHasChanged(t *testing.T) {
	for what, st := range map[string]driver.Standing{
		"held":            held,
		"gone":            {Gone: true},
		"another blocker": behind("ccccccccdddd", time.Hour),
		"no blocker":      {Pause: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, w := newFakeSession(), &driverkit.Waiter{}
			a := await(t.Context(), f, w, nil)
			f.answers(st)
			w.Wake()
			synctest.Wait()
			if !a.done || a.err != nil || a.st != st {
				t.Errorf("%s: returned %v, %+v, %v", what, a.done, a.st, a.err)
			}
			if a.done {
				return
			}
			close(f.ended)
		})
	}
}

// A turn that comes while no Await is under way is not delivered again.
func TestATurnBetweenTwoCallsIsSeenAtOnce(t *testing.T) {
	for _, c := range []struct {
		what string
		turn func(t *testing.T, f *fakeSession, w *driverkit.Waiter)
	}{
		{"before the first call", func(_ *testing.T, f *fakeSession, w *driverkit.Waiter) {
			w.Current(driverkit.InProcess)
			f.answers(held)
			w.Wake()
		}},
		{"between two calls", func(t *testing.T, f *fakeSession, w *driverkit.Waiter) {
			ctx, cancel := context.WithCancel(t.Context())
			await(ctx, f, w, nil)
			cancel()
			synctest.Wait()
			f.answers(held)
			w.Wake()
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, w := newFakeSession(), &driverkit.Waiter{}
			c.turn(t, f, w)
			a := await(t.Context(), f, w, nil)
			if !a.done || !a.st.Held || a.took != 0 {
				t.Errorf("%s: returned %v, %+v after %v", c.what, a.done, a.st, a.took)
			}
		})
	}
}

// The core interrupts an Await and calls it again with what it knew before.
func TestCallsThatAreRepeatedDoNotPostponeTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFakeSession(), &driverkit.Waiter{}
		for range 7 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			await(ctx, f, w, nil)
			<-ctx.Done()
			synctest.Wait()
			cancel()
		}
		if got := f.looked(); got != 2 {
			t.Errorf("%d looks in an hour and ten minutes, not one an hour", got)
		}
	})
}

func TestAClaimThatWasEnteredUnderTheSubscriptionDoesNotLookFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFakeSession(), &driverkit.Waiter{}
		w.Current(driverkit.InProcess)
		a := await(t.Context(), f, w, nil)
		if f.looked() != 0 {
			t.Errorf("%d looks", f.looked())
		}
		close(f.ended)
		synctest.Wait()
		if !errors.Is(a.err, driver.ErrGone) {
			t.Errorf("after the end of the session: %v, not ErrGone", a.err)
		}
	})
}

func TestAnEngineThatKnowsNoPauseIsLookedAtEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFakeSession(), &driverkit.Waiter{}
		f.answers(behind("aaaaaaaabbbb", 0))
		await(t.Context(), f, w, nil)
		time.Sleep(10*time.Second + time.Millisecond)
		if got := f.looked(); got != 11 {
			t.Errorf("%d looks in ten seconds, not 11", got)
		}
		close(f.ended)
	})
}

// A grantSession is a backend that is sent grants.
type grantSession struct {
	*fakeSession
	grant chan driver.Standing
}

func (g grantSession) TakeGrant(context.Context, driver.Claim) (driver.Standing, bool, error) {
	select {
	case st := <-g.grant:
		return st, true, nil
	default:
		return driver.Standing{}, false, nil
	}
}

func TestAGrantCostsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w := grantSession{newFakeSession(), make(chan driver.Standing, 1)}, &driverkit.Waiter{}
		w.Current(driverkit.InProcess)
		a := await(t.Context(), g, w, nil)
		g.grant <- held
		w.Notify()
		synctest.Wait()
		if !a.done || a.st != held || g.looked() != 0 {
			t.Errorf("returned %v, %+v after %d looks", a.done, a.st, g.looked())
		}
	})
}
