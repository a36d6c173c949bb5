package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// An engine that cannot reach all claims in one beat answers for the first ones: each
// beat goes on where the last one stopped, so nobody is lost.
func TestBeatsThatReachAThirdOfTheClaimsLoseNone(t *testing.T) {
	const locks = 300
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				err := next(ctx)
				clear(out[min(len(out), locks/3):])
				if len(out) > locks/3 {
					time.Sleep(defaultTTL / 6)
					err = context.DeadlineExceeded
				}
				return err
			}
		})
		var leases []*Lease
		for i := range locks {
			leases = append(leases, must(t)(c.Mutex(fmt.Sprint(i)).Lock(t.Context())))
		}
		time.Sleep(time.Minute)
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What one beat was answered for, the next one does not ask again before a third of a TTL
// has passed, and holds come before those that wait.
func TestABeatAsksFirstForHoldsAndOnlyForWhatHadNoAnswer(t *testing.T) {
	const each = 20
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		other := second(t, c)
		for i := range each {
			must(t)(other.Mutex(fmt.Sprint("busy", i)).Lock(t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range each {
			waiting.Go(func() { c.Mutex(fmt.Sprint("busy", i)).Lock(ctx) })
		}
		for i := range each {
			must(t)(c.Mutex(fmt.Sprint("free", i)).Lock(t.Context()))
		}
		mine, others := map[string]bool{}, map[string]bool{} // holds of c, and of the other
		for e := range c.List(t.Context(), "") {
			if e.Held && strings.HasPrefix(e.Name, "free") {
				mine[e.ID] = true
			} else if e.Held {
				others[e.ID] = true
			}
		}
		var mu sync.Mutex // guards what follows
		asked := map[string]int{}
		beats := 0
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				if len(live) == 0 || others[live[0].ID] {
					return next(ctx)
				}
				mu.Lock()
				defer mu.Unlock()
				for i, cl := range live {
					asked[cl.Name]++
					if i > 0 && mine[cl.ID] && !mine[live[i-1].ID] {
						t.Errorf("%s is held, and comes behind %s, which waits", cl.Name, live[i-1].Name)
					}
				}
				err := next(ctx)
				if beats++; beats == 1 { // half of the holds and half of the others have no answer
					clear(out[:each/2])
					clear(out[each+each/2:])
					err = context.DeadlineExceeded
				}
				return err
			}
		})
		time.Sleep(defaultTTL/3 + time.Second)
		r.set(func(r *faultEngine) { r.beat = nil })
		mu.Lock()
		defer mu.Unlock()
		once, twice := 0, 0
		for _, n := range asked {
			switch n {
			case 1:
				once++
			case 2:
				twice++
			}
		}
		if beats != 2 || once != each || twice != each {
			t.Errorf("%d beats, %d claims were asked for once and %d twice; want 2, %d and %d", beats, once, twice, each, each)
		}
		cancel()
		waiting.Wait()
	})
}

// Acquires that are given up on a slow link are left together, and the lock is taken
// over from them at once.
func TestAStormOfAcquiresThatGiveUpIsLeftInFewCalls(t *testing.T) {
	const (
		callers = 200
		trip    = 20 * time.Millisecond
	)
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		var mu sync.Mutex
		calls, left := 0, 0
		r.set(func(r *faultEngine) {
			r.leaveAll = func(_ context.Context, cs []driver.Claim, next func()) {
				time.Sleep(trip)
				next()
				mu.Lock()
				defer mu.Unlock()
				calls++
				left += len(cs)
			}
			r.enter = func(ctx context.Context, _ driver.Claim, next enterFunc) (driver.Standing, error) {
				time.Sleep(trip)
				return next(ctx)
			}
		})
		holder := must(t)(second(t, c).Mutex("a").Lock(t.Context()))
		const rounds = 10
		for range rounds {
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*trip/2)
					defer cancel()
					if _, err := c.Mutex("a", WithFair()).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		time.Sleep(5 * trip)
		if n := listed(t, c); n != 1 {
			t.Errorf("%d claims are in line", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if left != rounds*callers || calls > rounds*(maxLeavers+2) {
			t.Errorf("%d claims left in %d calls", left, calls)
		}
		if n := openDepartures(c); n != 0 {
			t.Errorf("%d departures", n)
		}
		holder.Unlock()
	})
}
