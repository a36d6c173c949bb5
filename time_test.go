package pawl

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A lease whose engine stops answering ends its context at its deadline, before
// the moment the last good call was sent + TTL, whatever the stopped engine does.
func TestLossIsToldBeforeTheLeaseCanPass(t *testing.T) {
	for run := range 250 {
		rng := rand.New(rand.NewPCG(1, uint64(run)))
		ttl := time.Duration(50+rng.IntN(60_000)) * time.Millisecond
		deaf := rng.IntN(2) == 0 // does not even come back when ctx ends
		withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
			var sent atomic.Int64 // when the last call that was answered was sent
			stamp := func() { sent.Store(int64(c.now())) }
			free := make(chan struct{})
			r.set(func(r *faultEngine) {
				r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
					stamp()
					time.Sleep(time.Duration(rng.Int64N(int64(ttl / 4)))) // the way there, or the way back
					return next(ctx)
				}
				r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, next func(context.Context) error) error {
					at := c.now()
					err := next(ctx)
					sent.Store(int64(at))
					return err
				}
			})
			l := must(t)(c.Mutex("a", WithTTL(ttl)).Lock(t.Context()))
			time.Sleep(time.Duration(rng.Int64N(int64(3 * ttl))))
			if l.Err() != nil {
				t.Fatalf("run %d: lost while the engine answered: %v", run, l.Err())
			}
			r.blackHole()
			if deaf {
				r.set(func(r *faultEngine) {
					r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
						<-free
						return driver.ErrUnreachable
					}
				})
			}
			<-l.Context().Done()
			now := c.now()
			wantErr(t, context.Cause(l.Context()), ErrLost)
			if last := instant(sent.Load()); now >= last.Add(ttl) {
				t.Fatalf("run %d: told %v after the lease could pass", run, now.Sub(last.Add(ttl)))
			} else if early := last.Add(ttl - min(ttl/10, 500*time.Millisecond)).Sub(now); early > ttl/4+time.Millisecond {
				t.Fatalf("run %d: told %v before the deadline", run, early)
			}
			close(free)
			wantErr(t, l.Unlock(), ErrLost)
		}, WithTTL(ttl))
		if t.Failed() {
			return
		}
	}
}

// On a machine that slept, timers fire late by the length of the sleep; the
// first call must say lost all the same, and Done follow within 100 ms.
func TestSleepBeyondTheLeaseIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(memlock.New())
		defer c.Close()
		var slept atomic.Int64
		c.asleep = func(time.Time) time.Duration { return time.Duration(slept.Load()) }
		asked := must(t)(c.Mutex("asked").Lock(t.Context()))
		told := must(t)(c.Mutex("told").Lock(t.Context()))
		ctx := must(t)(c.Mutex("ctx").Lock(t.Context())).Context()
		time.Sleep(1050 * time.Millisecond)
		slept.Add(int64(8 * time.Hour))
		wantErr(t, asked.Err(), ErrLost)
		if ctx.Err() == nil {
			t.Error("the context said nothing when asked")
		}
		woke := time.Now()
		<-told.Context().Done()
		if late := time.Since(woke); late > 100*time.Millisecond {
			t.Errorf("told %v after waking", late)
		}
		wantErr(t, told.Unlock(), ErrLost)
	})
}

// The clock itself: what it says of this machine must not move by preemption.
func TestTheMachineIsNotTakenForAsleep(t *testing.T) {
	before := machineAsleep(time.Now())
	for range 20_000 {
		machineAsleep(time.Now())
	}
	if after := machineAsleep(time.Now()); after-before > time.Second {
		t.Errorf("the machine seems to have slept %v during a busy loop", after-before)
	}
}

// etcd's put under a shared lease prolongs nothing: an Enter that promises
// nothing lives by the session's promise.
func TestAnEnterThatPromisesNothingLivesByTheSession(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, _ driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				st, err := next(ctx)
				st.Valid = 0
				return st, err
			}
		})
		first := must(t)(c.Mutex("first").Lock(t.Context())) // opens the session
		opened := time.Now()
		time.Sleep(2 * time.Second) // before the first beat
		second := must(t)(c.Mutex("second").Lock(t.Context()))
		if d := second.Deadline(); !d.Equal(opened.Add(9500 * time.Millisecond)) {
			t.Errorf("deadline %v after the session was opened", d.Sub(opened))
		}
		time.Sleep(8 * time.Second) // beats move it
		if first.Err() != nil || second.Err() != nil {
			t.Error(first.Err(), second.Err())
		}
	})
}

func TestAGrantThatComesAfterItsDeadlineIsGivenBack(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		slow := true
		var ids []string
		r.set(func(r *faultEngine) {
			r.enter = func(ctx context.Context, cl driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				ids = append(ids, cl.ID)
				st, err := next(ctx)
				if slow {
					slow = false
					time.Sleep(9700 * time.Millisecond) // within the call's limit, after the deadline
				}
				return st, err
			}
		})
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		if len(ids) != 2 || ids[0] == ids[1] || l.ID() != ids[1] {
			t.Errorf("asked %v, holds %s", ids, l.ID())
		}
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestMaxHoldEndsTheContextFirstAndLeavesOneMarginLater(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var left time.Time
		r.set(func(r *faultEngine) {
			r.leave = func(ctx context.Context, _ driver.Claim, next func(context.Context) error) error {
				left = time.Now()
				return next(ctx)
			}
		})
		start := time.Now()
		l := must(t)(c.Mutex("a", WithMaxHold(25*time.Second)).Lock(t.Context()))
		<-l.Context().Done()
		if held := time.Since(start); held < 25*time.Second || held > 25*time.Second+100*time.Millisecond {
			t.Errorf("ended after %v", held)
		}
		wantErr(t, context.Cause(l.Context()), ErrLost)
		if n := listed(t, c); n != 1 {
			t.Error("given back before the margin")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if gap := left.Sub(start) - 25*time.Second; gap < 500*time.Millisecond {
			t.Errorf("left %v after the end", gap)
		}
		if n := listed(t, c); n != 0 {
			t.Error("not given back")
		}
		wantErr(t, l.Unlock(), ErrLost)
	})
}

func TestALeaseWithoutRenewalLastsOneTTLFromItsGrant(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		other := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		time.AfterFunc(35*time.Second, func() { other.Unlock() })
		m := c.Mutex("a", WithoutRenewal())
		l := must(t)(m.Lock(t.Context())) // waits for more than three TTLs in line
		if left := time.Until(l.Deadline()); left != 9500*time.Millisecond {
			t.Errorf("deadline in %v", left)
		}
		<-l.Context().Done()
		wantErr(t, l.Unlock(), ErrLost)
		l = must(t)(m.Lock(t.Context()))
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(c.allSessions()); n != 0 {
			t.Errorf("%d sessions left", n)
		}
	})
}

// While the keeper is in the middle of ending a lease, an Err that comes between
// must not find it alive.
func TestErrIsNeverNilAfterTheDeadline(t *testing.T) {
	r := &faultEngine{Engine: memlock.New()}
	c := New(r, WithTTL(100*time.Millisecond), WithReentry())
	defer c.Close()
	var leases []*Lease
	for i := range 200 {
		l := must(t)(c.Mutex(strconv.Itoa(i)).Lock(t.Context()))
		for range 4 { // nested ones are ended one after the other
			l = must(t)(c.Mutex(l.Name()).Lock(l.Context()))
			leases = append(leases, l)
		}
	}
	r.blackHole()
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for alive := true; alive; {
				alive = false
				for i := part; i < len(leases); i += 4 {
					l := leases[i]
					deadline, now := l.cl.Deadline(), c.now()
					switch err := l.Err(); {
					case err == nil && now >= deadline:
						t.Errorf("%q is alive %v after its deadline", l.Name(), now.Sub(deadline))
						return
					case err == nil:
						alive = true
					}
				}
			}
		})
	}
	wg.Wait()
	r.heal()
}
