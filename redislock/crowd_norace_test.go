//go:build !race

package redislock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

// distant returns a link with a round trip of that time.
func distant(t *testing.T, addr string, trip time.Duration) *faultproxy.Proxy {
	t.Helper()
	p := faultproxy.New(t, addr)
	p.Delay(faultproxy.ToServer, trip/2)
	p.Delay(faultproxy.ToClient, trip/2)
	return p
}

// A process has more leases than a slow link carries one after the other.
func TestNoRaceManyLeasesOutliveASlowLink(t *testing.T) {
	const leases, trip, ttl = 4000, 100 * time.Millisecond, 3 * time.Second
	for name, engine := range libraries {
		for about, opts := range map[string][]redislock.Option{"with scripts": nil, "without": {redislock.WithoutScripts()}} {
			t.Run(name+" "+about, func(t *testing.T) {
				server := testserver.Redis
				if opts != nil {
					server = testserver.Valkey
				}
				stalltest.Succeeds(t, ttl/10, func() error {
					s := server(t)
					c := pawl.New(engine(t, distant(t, s.Addr(), trip).Addr(), opts...), pawl.WithTTL(ttl))
					defer c.Close()
					all, err := lockAll(t.Context(), c, leases)
					if err != nil {
						return err
					}
					time.Sleep(2 * ttl)
					if err := lostOf(all); err != nil {
						return err
					}
					if err := c.Close(); err != nil { // which gives all back, many at a time
						return err
					}
					if left := newConsole(t, s.Addr()).do("DBSIZE"); left > "1" { // the fence stays
						return fmt.Errorf("%s keys were left behind", left)
					}
					return nil
				})
			})
		}
	}
}

// Goroutines of one process wait in line for one name, so many that their renewals one by
// one would keep the server busy. All have their turn, and give it back in time: a Leave
// does not wait until all the others have entered.
func TestNoRaceACrowdOfWaitersIsServed(t *testing.T) {
	const waiters, ttl = 8000, 3 * time.Second
	for name, engine := range libraries {
		t.Run(name, func(t *testing.T) {
			stalltest.Succeeds(t, ttl/10, func() error {
				c := pawl.New(engine(t, testserver.Redis(t).Addr()), pawl.WithTTL(ttl))
				defer c.Close()
				m := c.Mutex("name", pawl.WithFair())
				w := startWatch()
				defer w.end()
				failed := make(chan error, waiters)
				var crowd sync.WaitGroup
				for range waiters {
					crowd.Go(func() {
						l, err := m.Lock(t.Context())
						if err == nil {
							err = l.Unlock()
						}
						if err != nil {
							failed <- err
						}
					})
				}
				crowd.Wait()
				took := w.spent()
				t.Logf("%d of %d were served in %v", waiters-len(failed), waiters, took)
				switch {
				case len(failed) > 0:
					return fmt.Errorf("%d of %d did not hold the lock until they gave it back: %w", len(failed), waiters, <-failed)
				case took > time.Minute:
					return fmt.Errorf("%d waiters took %v", waiters, took)
				}
				return nil
			})
		})
	}
}

// Two hundred goroutines at a time give up a lock that is held. Another name does not wait
// for their departures, and soon none of them is in line.
func TestNoRaceAStormOfAcquiresThatGiveUpDelaysNoOtherName(t *testing.T) {
	const callers, rounds, trip = 200, 40, 20 * time.Millisecond
	for name, engine := range libraries {
		t.Run(name, func(t *testing.T) {
			s := testserver.Redis(t)
			c := pawl.New(engine(t, distant(t, s.Addr(), trip).Addr()), pawl.WithTTL(time.Minute))
			defer c.Close()
			other := pawl.New(engine(t, s.Addr()), pawl.WithTTL(time.Minute))
			defer other.Close()
			defer unlock(t, lock(t, other.Mutex("name")))
			stalltest.Within(t, time.Second, "another name was locked", func() time.Duration {
				for range rounds {
					var crowd sync.WaitGroup
					for range callers {
						crowd.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
							defer cancel()
							if _, err := c.Mutex("name", pawl.WithFair()).Lock(ctx); err == nil {
								t.Error("a lock that is held was granted")
							}
						})
					}
					crowd.Wait()
				}
				began := time.Now()
				l := lock(t, c.Mutex("another"))
				took := time.Since(began)
				unlock(t, l)
				for {
					line, err := other.Line(t.Context(), "name")
					if err != nil {
						t.Fatal(err)
					}
					if len(line) == 1 {
						break
					}
					time.Sleep(trip / 4)
				}
				t.Logf("another name took %v, and all was settled after %v", took, time.Since(began))
				return took
			})
		})
	}
}

// lockAll takes n names, many at a time.
func lockAll(ctx context.Context, c *pawl.Client, n int) ([]*pawl.Lease, error) {
	leases, errs := make([]*pawl.Lease, n), make(chan error, n)
	var next atomic.Int64
	var crowd sync.WaitGroup
	for range 256 {
		crowd.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				l, err := c.Mutex(fmt.Sprint("name ", i)).Lock(ctx)
				if err != nil {
					errs <- err
					return
				}
				leases[i] = l
			}
		})
	}
	crowd.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return leases, nil
	}
}

// lostOf returns how many leases have been lost.
func lostOf(all []*pawl.Lease) error {
	n, why := 0, error(nil)
	for _, l := range all {
		if err := l.Err(); err != nil {
			n, why = n+1, err
		}
	}
	if n > 0 {
		return fmt.Errorf("%d of %d leases were lost: %w", n, len(all), why)
	}
	return nil
}
