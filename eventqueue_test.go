package pawl

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// stuckOn is an observer that blocks on the events of one kind until it is freed.
type stuckOn struct {
	recorded
	kind Kind
	free chan struct{}
}

func (o *stuckOn) Observe(e Event) {
	if e.Kind == o.kind {
		<-o.free
	}
	o.recorded.Observe(e)
}

// Whatever the event on which it is stuck: the lease is renewed, given back and passed
// to a rival, and a loss is told in time.
func TestAnObserverThatBlocksHarmsNoLease(t *testing.T) {
	for kind := Waiting; kind < kinds; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			ob := &stuckOn{kind: kind}
			withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
				ob.free = make(chan struct{})
				rival := second(t, c)
				quick := func(what string, f func()) {
					t.Helper()
					start := time.Now()
					f()
					if took := time.Since(start); took > 2*maxObserved {
						t.Errorf("%s took %v", what, took)
					}
				}
				var l *Lease
				quick("Lock", func() { l = must(t)(c.Mutex("a").Lock(t.Context())) })
				got := queue(t, t.Context(), c.Mutex("a").Lock)
				time.Sleep(time.Minute) // six TTLs
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
				quick("Unlock", func() { l.Unlock() })
				l = <-got
				quick("Unlock", func() { l.Unlock() })
				quick("a rival", func() { must(t)(rival.Mutex("a").Lock(t.Context())).Unlock() })
				quick("TryLock", func() {
					held := must(t)(rival.Mutex("b").Lock(t.Context()))
					_, err := c.Mutex("b").TryLock(t.Context())
					wantErr(t, err, ErrHeld)
					_, err = c.Mutex("b", WithWait(time.Millisecond)).Lock(t.Context())
					wantErr(t, err, ErrHeld)
					held.Unlock()
				})
				l = must(t)(c.Mutex("c").Lock(t.Context()))
				r.blackHole()
				time.Sleep(time.Until(l.Deadline()))
				quick("the end of a lost lease", func() { <-l.Context().Done() })
				r.heal()
				synctest.Wait() // the loss is counted after the context ends
				if st := c.Stats(); st.WaitingNow != 0 || st.Acquired+st.HandedOver != st.Released+st.Lost {
					t.Errorf("%+v", st)
				}
				quick("Close", func() { _ = c.Close() })
				close(ob.free)
				synctest.Wait()
				checkPairs(t, ob.take())
			}, WithObserver(ob))
		})
	}
}

// checkPairs checks that every wait and every hold of all has its end, after its
// beginning.
func checkPairs(t *testing.T, all []Event) {
	t.Helper()
	waiting, held := 0, 0
	for _, e := range all {
		switch {
		case e.Kind == Waiting:
			waiting++
		case e.Kind == GaveUp || e.Waited:
			waiting--
		}
		switch e.Kind {
		case Acquired, HandedOver:
			held++
		case Released, Lost:
			held--
		}
		if waiting < 0 || held < 0 {
			t.Errorf("%+v ends what has not begun", e)
		}
	}
	if len(all) == 0 || waiting != 0 || held != 0 {
		t.Errorf("after %d events %d wait and %d are held", len(all), waiting, held)
	}
}

func TestAnObserverThatIsStuckForEverCostsABoundedNumberOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var seen int
		c := New(memlock.New(), WithObserver(ObserverFunc(func(Event) {
			<-free
			seen++
		})))
		for range maxQueued {
			must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
		}
		if st := c.Stats(); st.Unobserved != 2*maxQueued-maxQueued-1 { // one is being observed
			t.Errorf("%+v", st)
		}
		_ = c.Close()
		close(free)
		synctest.Wait()
		if seen != maxQueued+1 {
			t.Errorf("%d events were kept", seen)
		}
	})
}

// directPanic is a DirectObserver that always panics.
type directPanic struct{}

func (directPanic) Observe(Event) { panic("the observer's own fault") }
func (directPanic) Direct()       {}

func TestAnObserverThatPanicsHarmsNoLease(t *testing.T) {
	for name, ob := range map[string]Observer{
		"in its own goroutine": ObserverFunc(func(Event) { panic("the observer's own fault") }),
		"directly":             directPanic{},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			was := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(was)
			var seen recorded
			bubble(t, func(t *testing.T, c *Client) {
				for range 3 {
					must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
				}
				l := must(t)(c.Mutex("a").Lock(t.Context()))
				time.Sleep(time.Minute)
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
				if st := c.Stats(); st.Unobserved != st.Acquired+st.Released+st.Renewed || st.Renewed == 0 {
					t.Errorf("%+v", st)
				}
				checkPairs(t, seen.take())
			}, WithObserver(ob), WithObserver(&seen))
			if got := log.String(); strings.Count(got, "panicked") != 1 || !strings.Contains(got, "the observer's own fault") {
				t.Errorf("logged: %s", got)
			}
		})
	}
}

// Also if it panics when it is asked whether it wants an event.
func TestALoggerThatPanicsHarmsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(time.Minute)
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}, WithLogger(&slog.Logger{})) // it has no handler
}

// An observer that ends its goroutine, as t.FailNow does, only loses that event.
func TestAnObserverThatEndsItsGoroutineHarmsNoLease(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		for range 3 {
			must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
		}
		synctest.Wait()
		if st := c.Stats(); st.Unobserved != 3 {
			t.Errorf("%+v", st)
		}
		seen.expect(t, Released, Released, Released)
	}, WithObserver(ObserverFunc(func(e Event) {
		if e.Kind == Acquired {
			runtime.Goexit()
		}
		seen.Observe(e)
	})))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An observer that calls the client, even Close, does not block.
func TestAnObserverMayCallTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		c = New(memlock.New(), WithObserver(ObserverFunc(func(e Event) {
			switch e.Kind {
			case Acquired:
				if e.Name == "a" {
					must(t)(c.Mutex("b").Lock(context.Background())).Unlock()
				}
			case Lost:
				c.Close()
			}
		})))
		l := must(t)(c.Mutex("a", WithMaxHold(time.Second)).Lock(t.Context()))
		<-l.Context().Done()
		<-c.done
	})
}

// A hold that is lost before its observer was told that it began.
func TestALossIsToldAfterItsBeginning(t *testing.T) {
	var seen recorded
	var once sync.Once
	var c *Client
	early := directFunc(func(e Event) { // stands between the grant and its end
		if e.Kind == Acquired {
			once.Do(func() {
				s := c.allSessions()[0]
				s.die(errDead)
			})
		}
		seen.Observe(e)
	})
	synctest.Test(t, func(t *testing.T) {
		c = New(memlock.New(), WithObserver(early))
		defer c.Close()
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		wantErr(t, l.Err(), ErrLost)
		// The direct observer is inside Acquired while the loss comes, so that it records
		// the loss only after it, or never.
		got := seen.expect(t, Acquired, Lost)
		if got[1].Cause != SessionEnded {
			t.Errorf("%+v", got[1])
		}
	})
}

type directFunc func(Event)

func (f directFunc) Observe(e Event) { f(e) }
func (directFunc) Direct()           {}

func TestEventsSayWhereAndWhy(t *testing.T) {
	var seen recorded
	type key struct{}
	bubble(t, func(t *testing.T, c *Client) {
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		began := time.Now()
		l := must(t)(c.Mutex("fixed", WithoutRenewal()).Lock(ctx))
		<-l.Context().Done()
		l = must(t)(c.Mutex("bounded", WithMaxHold(time.Second)).Lock(ctx))
		<-l.Context().Done()
		l = must(t)(c.Mutex("broken").Lock(ctx))
		line, err := c.Line(ctx, "broken")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Evict(ctx, line[0]); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		synctest.Wait()
		got := seen.expect(t, Acquired, Lost, Acquired, Lost, Acquired, Lost)
		var causes []Cause
		for _, e := range got {
			if e.Store != "memory" || e.Time.Before(began) || e.Time.After(time.Now()) {
				t.Errorf("%+v", e)
			}
			if e.Kind == Lost {
				causes = append(causes, e.Cause)
				if e.Context != nil || !errors.Is(e.Err, ErrLost) || e.Took == 0 {
					t.Errorf("%+v", e)
				}
			} else if e.Context.Value(key{}) != "the caller's" || e.Cause != 0 {
				t.Errorf("%+v", e)
			}
		}
		if want := []Cause{FixedTTL, MaxHold, Broken}; !slices.Equal(causes, want) {
			t.Errorf("causes %v, want %v", causes, want)
		}
	}, WithObserver(&seen))
}

func TestALockAllThatIsRefusedIsTold(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		held := must(t)(second(t, c).Mutex("b").Lock(t.Context()))
		_, err := c.TryLockAll(t.Context(), []string{"a", "b"})
		wantErr(t, err, ErrHeld)
		if e := seen.expect(t, Refused)[0]; e.Name != "b" {
			t.Errorf("%+v", e)
		}
		_, err = c.LockAll(t.Context(), []string{"a", "b"}, WithWait(time.Second))
		wantErr(t, err, ErrHeld)
		seen.expect(t, Acquired, Waiting, GaveUp, Released)
		held.Unlock()
	}, WithObserver(&seen))
}

func TestLockAllWithAnEndedContextHasNoEventAsLockHasNone(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Mutex("a").Lock(ctx)
		wantErr(t, err, context.Canceled)
		_, err = c.LockAll(ctx, []string{"a", "b"})
		wantErr(t, err, context.Canceled)
		_, err = c.TryLockAll(ctx, []string{"a", "b"})
		wantErr(t, err, context.Canceled)
		seen.expect(t)
	}, WithObserver(&seen))
}

// A logger that does not want an event costs no goroutine.
func TestWhatALoggerDoesNotWantIsNotQueued(t *testing.T) {
	q := newEventQueue(logObserver{slog.New(slog.NewTextHandler(&lockedBuffer{}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	var n counters
	q.post(&n, &Event{Kind: Acquired})
	if q.posted != 0 {
		t.Error("an event for debugging was queued")
	}
	q.post(&n, &Event{Kind: Lost, Err: driver.ErrGone})
	if q.posted != 1 {
		t.Error("a warning was not queued")
	}
	q.settle(maxObserved)
}

// A nested lease with an observer of its own outlives the lease it is nested in: the
// end is told to the observer that was told of the beginning.
func TestTheEndIsToldToWhomeverTheBeginningWas(t *testing.T) {
	var outside, inside recorded
	bubble(t, func(t *testing.T, c *Client) {
		for _, lost := range []bool{false, true} {
			outer := must(t)(c.Mutex("a", WithReentry(), WithObserver(&outside)).Lock(t.Context()))
			time.Sleep(time.Second)
			inner := must(t)(c.Mutex("a", WithReentry(), WithObserver(&inside)).Lock(outer.Context()))
			outer.Unlock()
			end := Released
			if lost {
				outer.cl.s.lose(loss{cl: outer.cl, why: errBroken})
				end = Lost
			}
			inner.Unlock()
			synctest.Wait()
			if e := outside.expect(t, Acquired, end)[1]; e.Took != time.Second {
				t.Errorf("%+v", e)
			}
			inside.expect(t)
		}
	})
}

func TestALossSaysHowLongTheLeaseWasHeld(t *testing.T) {
	var seen recorded
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		next := queue(t, t.Context(), c.Mutex("a").Lock)
		time.Sleep(turnLength / 2)
		l.Unlock()
		l = <-next
		l.cl.s.lose(loss{cl: l.cl, why: errBroken})
		synctest.Wait()
		if e := seen.expect(t, Acquired, Waiting, Released, HandedOver, Lost)[4]; e.Took != 0 {
			t.Errorf("held for nothing, and the loss says %v", e.Took)
		}
	}, WithObserver(&seen))
}
