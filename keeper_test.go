package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A half-open connection eats a beat whole: the next must not wait behind it.
func TestAStuckBeatDoesNotHoldUpTheNext(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		free := make(chan struct{})
		var stuck atomic.Bool
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				if stuck.CompareAndSwap(false, true) {
					<-free // does not even listen to ctx
					return driver.ErrUnreachable
				}
				return next(ctx)
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		close(free)
	})
}

func TestAFailedBeatIsDoubtNotLoss(t *testing.T) {
	var seen []Kind
	ob := ObserverFunc(func(e Event) { seen = append(seen, e.Kind) })
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
				return errors.New("server closed the connection")
			}
		})
		time.Sleep(7 * time.Second)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		r.heal()
		time.Sleep(time.Minute)
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
		if len(seen) < 4 || seen[0] != Acquired || seen[1] != InDoubt || seen[2] != Renewed || seen[len(seen)-1] != Released {
			t.Error(seen)
		}
	}, WithObserver(ob))
}

// One row that cannot be prolonged now must not cost the others theirs.
func TestABeatThatLearnsOfAllButOneLosesAtMostThatOne(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				err := next(ctx)
				for i := range live {
					if live[i].Name == "locked" {
						out[i] = driver.Standing{}
					}
				}
				return err
			}
		})
		locked := must(t)(c.Mutex("locked").Lock(t.Context()))
		other := must(t)(c.Mutex("other").Lock(t.Context()))
		time.Sleep(time.Minute)
		wantErr(t, locked.Err(), ErrLost)
		if err := other.Err(); err != nil {
			t.Error(err)
		}
	})
}

// Where claims live by their session, a new claim has what a beat has promised the
// others, also while no beat is answered for all claims: with many claims that come one
// after the other there may never be such a beat.
func TestAGrantLivesByABeatThatLearntOfOthers(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				st, err := next(ctx)
				st.Valid = 0
				return st, err
			}
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				err := next(ctx)
				for i := range live {
					if live[i].Name != "old" {
						out[i] = driver.Standing{}
					}
				}
				return err
			}
		})
		must(t)(c.Mutex("old").Lock(t.Context()))
		for range 10 {
			l := must(t)(c.Mutex("new").Lock(t.Context()))
			time.Sleep(defaultTTL / 2)
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Answers to Enter can be late, as behind a pool's other users, and a round of beats may have
// begun just before: what is left of the promise would end before the next round.
func TestGrantsThatComeLateAreRenewedBeforeTheNextRound(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("other").Lock(t.Context())) // so that there are beats
		time.Sleep(defaultTTL/4 + time.Second/10)
		var beats atomic.Int64 // two of them can be under way at once
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				st, err := next(ctx)
				time.Sleep(defaultTTL * 3 / 4) // a round of beats has just begun then
				return st, err
			}
			r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				beats.Add(1)
				time.Sleep(time.Second / 10)
				return next(ctx)
			}
		})
		var late sync.WaitGroup
		for i := range 100 {
			late.Go(func() {
				l := must(t)(c.Mutex(fmt.Sprint("late", i)).Lock(t.Context()))
				time.Sleep(defaultTTL)
				if err := l.Err(); err != nil {
					t.Errorf("lock %d: %v", i, err)
				}
			})
		}
		late.Wait()
		if n := beats.Load(); n > 3+3+2 { // rounds before, rounds after, and those of late grants
			t.Errorf("%d beats", n)
		}
	})
}

// A beat that was sent while an Enter was in flight must not report a loss.
func TestABeatDuringAnEnterIsNoFalseLoss(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		must(t)(c.Mutex("other").Lock(t.Context())) // so that there are beats
		var beaten []driver.Claim
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				time.Sleep(5 * time.Second) // a beat falls in here
				return next(ctx)
			}
			r.beat = func(ctx context.Context, live []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
				beaten = append(beaten[:0], live...)
				return next(ctx)
			}
		})
		time.AfterFunc(4*time.Second, func() {
			if len(beaten) != 1 {
				t.Errorf("%d claims beaten during the enter", len(beaten))
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A beat's answer about an earlier try says nothing about the present one.
func TestALateAnswerAboutAnEarlierTryIsIgnored(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		holder := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				if err := next(ctx); err != nil {
					return err
				}
				time.Sleep(1500 * time.Millisecond) // the answer is on its way while the claim enters again
				for i := range live {
					if live[i].Try == 1 {
						out[i] = driver.Standing{Gone: true}
					}
				}
				return nil
			}
		})
		time.AfterFunc(4*time.Second, func() { // after the beat was sent: the place is lost, and entered again
			for e := range c.List(t.Context(), "a") {
				if !e.Held {
					c.Evict(t.Context(), e)
				}
			}
		})
		time.AfterFunc(4200*time.Millisecond, func() { holder.Unlock() })
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEvictedHolderIsToldWithinAThirdOfTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(time.Minute)
		for e := range c.List(t.Context(), "a") {
			if err := c.Evict(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		broken := time.Now()
		<-l.Context().Done()
		if late := time.Since(broken); late > 10*time.Second/3 {
			t.Errorf("told after %v", late)
		}
		wantErr(t, l.Unlock(), ErrLost)
	})
}

func TestNoticeOfTheStoreEndsEveryLeaseAtOnce(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		lost := make(chan struct{})
		r.lost = lost
		a := must(t)(c.Mutex("a").Lock(t.Context()))
		b := must(t)(c.Mutex("b").Lock(t.Context()))
		r.lost = nil // for the session after it
		close(lost)
		synctest.Wait()
		wantErr(t, context.Cause(a.Context()), ErrLost)
		wantErr(t, b.Unlock(), ErrLost)
		if err := must(t)(c.Mutex("a").Lock(t.Context())).Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A wait outlives its session as often as need be.
func TestTwoOutagesDoNotEndAWait(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		holder := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		got := make(chan *Lease)
		go func() {
			l, err := c.Mutex("a").Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		for range 3 {
			var gone atomic.Bool
			gone.Store(true)
			r.set(func(r *faultEngine) {
				r.beat = func(ctx context.Context, live []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
					if len(live) > 0 && live[0].ID != holder.ID() && gone.CompareAndSwap(true, false) {
						return driver.ErrGone
					}
					return next(ctx)
				}
			})
			time.Sleep(15 * time.Second)
			if gone.Load() {
				t.Fatal("no outage happened")
			}
		}
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		l := <-got
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestSessionsEndWhenIdle(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
		if n := len(c.allSessions()); n != 1 {
			t.Fatalf("%d sessions", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(c.allSessions()); n != 0 {
			t.Errorf("%d sessions left", n)
		}
		must(t)(c.Mutex("a").Lock(t.Context())).Unlock()
	})
}

// A program that computes its TTLs, as from deadlines, has as many as it has locks:
// they share few sessions, and each lives for what was asked or up to a quarter more.
func TestAnyNumberOfTTLsShareFewSessions(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		var most int
		for i := range 5000 {
			ttl := time.Second + time.Duration(i)*17*time.Millisecond // up to 86 s
			l := must(t)(c.Mutex(fmt.Sprint("name ", i), WithTTL(ttl)).Lock(t.Context()))
			if left := time.Until(l.Deadline()); left < ttl*9/10 || left > ttl*5/4 {
				t.Fatalf("a lock with a TTL of %v lives for %v", ttl, left)
			}
			if i%2 == 0 {
				defer l.Unlock()
			} else if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
			most = max(most, len(c.allSessions()))
		}
		if most > 2*exactSessions {
			t.Errorf("%d sessions", most)
		}
	})
}

func TestSteppedTTLsAreNeverShorterAndAtMostAQuarterLonger(t *testing.T) {
	steps := map[time.Duration]bool{}
	for ttl := minTTL; ttl < maxTTL; ttl += ttl/100 + time.Millisecond {
		got := roundTTL(ttl)
		if got < ttl || got-ttl > ttl/4 || roundTTL(got) != got {
			t.Fatalf("%v becomes %v", ttl, got)
		}
		steps[got] = true
	}
	if len(steps) > 140 {
		t.Errorf("%d steps", len(steps))
	}
}

// With every beat stuck the keeper waits for the deadline, it does not spin.
func TestTheKeeperDoesNotSpinBehindStuckBeats(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		free := make(chan struct{})
		var beats atomic.Int64
		r.set(func(r *faultEngine) {
			r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
				beats.Add(1)
				<-free
				return driver.ErrUnreachable
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		<-l.Context().Done() // in a bubble a spinning keeper would stop the clock
		time.Sleep(time.Minute)
		if n := beats.Load(); n != maxInFlight {
			t.Errorf("%d beats", n)
		}
		close(free)
	})
}

// A hold that is lost because its renewals were refused says so, and not that the store was
// silent; what was refused before a renewal that succeeded does not count.
func TestALossSaysWhatTheStoreRefused(t *testing.T) {
	denied := fmt.Errorf("%w: no right to write", driver.ErrDenied)
	silent := fmt.Errorf("%w: connection refused", driver.ErrUnreachable)
	full := errors.New("no space left")
	for name, c := range map[string]struct {
		beats []error // of the beats in turn, the last one for all that follow
		kind  error   // the loss is this too
		says  string
	}{
		"denied":                       {[]error{denied}, ErrDenied, "no right to write"},
		"denied, then silent":          {[]error{denied, silent}, ErrDenied, "no right to write"},
		"silent":                       {[]error{silent}, nil, "connection refused"},
		"full":                         {[]error{full}, full, "no space left"},
		"denied, renewed, then silent": {[]error{denied, nil, silent}, nil, "connection refused"},
		"denied, renewed, then stuck":  {[]error{denied, nil, context.DeadlineExceeded}, nil, "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			var lost error
			ob := ObserverFunc(func(e Event) {
				if e.Kind == Lost && e.Cause == NotRenewed {
					lost = e.Err
				}
			})
			withFaults(t, func(t *testing.T, client *Client, r *faultEngine) {
				l := must(t)(client.Mutex("a").Lock(t.Context()))
				var n atomic.Int64
				r.set(func(r *faultEngine) {
					r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
						err := c.beats[min(int(n.Add(1)), len(c.beats))-1]
						if err == nil {
							return next(ctx)
						}
						return err
					}
				})
				<-l.Context().Done()
				synctest.Wait()
				for about, err := range map[string]error{"the cause": context.Cause(l.Context()), "Err": l.Err(), "Unlock": l.Unlock(), "the event": lost} {
					wantErr(t, err, ErrLost)
					for _, kind := range []error{ErrDenied, ErrUnreachable, full, context.DeadlineExceeded} {
						if errors.Is(err, kind) != (kind == c.kind) { //nolint:errorlint // one of these
							t.Errorf("%s: %v: errors.Is %q is %t", about, err, kind, errors.Is(err, kind))
						}
					}
					if !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrDenied) && strings.Contains(err.Error(), "did not answer") {
						t.Errorf("%s: %v", about, err)
					}
				}
			}, WithObserver(ob))
		})
	}
}
