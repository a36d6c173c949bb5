package redislock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// A library makes an engine on a server.
type library func(t *testing.T, addr string, opts ...redislock.Option) driver.Engine

var libraries = map[string]library{"rueidis": onRueidis, "go-redis": onGoRedis}

func onRueidis(t *testing.T, addr string, opts ...redislock.Option) driver.Engine {
	c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return rueidis.New(c, opts...)
}

func onGoRedis(t *testing.T, addr string, opts ...redislock.Option) driver.Engine {
	c := goredisclient.NewClient(&goredisclient.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return goredis.New(c, opts...)
}

// distant returns a link with a round trip of that time.
func distant(t *testing.T, addr string, trip time.Duration) *faultproxy.Proxy {
	t.Helper()
	p := faultproxy.New(t, addr)
	p.Delay(faultproxy.ToServer, trip/2)
	p.Delay(faultproxy.ToClient, trip/2)
	return p
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

// A process has more leases than a slow link carries one after the other.
func TestManyLeasesOutliveASlowLink(t *testing.T) {
	const leases, trip, ttl = 4000, 100 * time.Millisecond, 3 * time.Second
	for name, engine := range libraries {
		for about, opts := range map[string][]redislock.Option{"with scripts": nil, "without": {redislock.WithoutScripts()}} {
			t.Run(name+" "+about, func(t *testing.T) {
				server := testserver.Redis
				if opts != nil {
					server = testserver.Valkey
				}
				stalltest.Succeeds(t, ttl/10, func() error {
					c := pawl.New(engine(t, distant(t, server(t).Addr(), trip).Addr(), opts...), pawl.WithTTL(ttl))
					defer c.Close()
					all, err := lockAll(t.Context(), c, leases)
					if err != nil {
						return err
					}
					time.Sleep(2 * ttl)
					return lostOf(all)
				})
			})
		}
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

// Goroutines of one process wait in line for one name, so many that their renewals one by
// one would keep the server busy. All have their turn.
func TestACrowdOfWaitersIsServed(t *testing.T) {
	const waiters, ttl = 8000, 3 * time.Second
	for name, engine := range libraries {
		t.Run(name, func(t *testing.T) {
			c := pawl.New(engine(t, testserver.Redis(t).Addr()), pawl.WithTTL(ttl))
			defer c.Close()
			m := c.Mutex("name", pawl.WithFair())
			w := startWatch()
			defer w.end()
			var served atomic.Int64
			var crowd sync.WaitGroup
			for range waiters {
				crowd.Go(func() {
					l, err := m.Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if l.Unlock() == nil {
						served.Add(1)
					}
				})
			}
			crowd.Wait()
			t.Logf("%d of %d were served in %v", served.Load(), waiters, w.spent())
			if served.Load() < waiters*99/100 { // the lease of one may end while this process stands still
				t.Errorf("%d of %d held the lock until they gave it back", served.Load(), waiters)
			}
			if took := w.spent(); took > time.Minute {
				t.Errorf("%d waiters took %v", waiters, took)
			}
		})
	}
}

// claims returns claims whose IDs begin with a letter, on a name each or all on one.
func claims(n int, letter, name string, apart bool) []driver.Claim {
	all := make([]driver.Claim, n)
	for i := range all {
		all[i] = exclusive(i, name)
		all[i].ID = letter + all[i].ID[1:]
		if apart {
			all[i].Name = fmt.Sprint(name, i)
		}
	}
	return all
}

// onDistant runs a test for each library, with a session whose link can be disturbed.
func onDistant(t *testing.T, ttl time.Duration, test func(t *testing.T, one driver.Session, link *faultproxy.Proxy, at *console)) {
	for name, engine := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, link := proxied(t)
			e := engine(t, link.Addr())
			t.Cleanup(func() { _ = e.Close() })
			t.Cleanup(func() { mend(link) })
			one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			test(t, one, link, newConsole(t, s.Addr()))
		})
	}
}

// The claims of one name that wait, or that share it, are renewed together, and each has
// the answer that it would have alone.
func TestTheWaitersOfANameAreRenewedByFewScripts(t *testing.T) {
	t.Parallel()
	const n = 2000
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, _ *faultproxy.Proxy, at *console) {
		waiters, readers := claims(n, "b", "waited", false), claims(n, "c", "shared", false)
		for i := range readers {
			readers[i].Limit = n
		}
		enterAll(t, one, waiters)
		enterAll(t, one, readers)
		gone := exclusive(0, "waited")
		live := append(append(append(waiters[:1:1], readers...), gone), waiters[1:]...)
		out := make([]driver.Standing, len(live))
		at.do("ZREM", "pawl:\x01hwaited\x01l", waiters[n/2].ID) // as if it had expired
		at.do("HDEL", "pawl:\x01hwaited", waiters[n/2].ID)
		before := at.evals()
		if err := one.Beat(t.Context(), live, out); err != nil {
			t.Fatal(err)
		}
		if scripts := at.evals() - before; scripts > 2*n/100 {
			t.Errorf("%d scripts renewed %d claims", scripts, len(live))
		}
		for i, c := range live {
			held, lost := i <= n, c.ID == gone.ID || c.ID == waiters[n/2].ID
			if out[i].Gone != lost || out[i].Held != (held && !lost) || (out[i].Valid > 0) == lost || held && out[i].Token == 0 {
				t.Fatalf("claim %d of %q: %+v", i, c.Name, out[i])
			}
		}
	})
}

// One of four chunks has no answer. The others have theirs, and the next beat, which asks
// for the rest, has all.
func TestAChunkWithoutAnswerKeepsNoOtherFromIts(t *testing.T) {
	t.Parallel()
	const n, ttl = 2000, time.Minute
	onDistant(t, ttl, func(t *testing.T, one driver.Session, link *faultproxy.Proxy, _ *console) {
		live := claims(n, "a", "name", true)
		enterAll(t, one, live)
		link.SwallowReplies(1, matching(live[n/2].ID))
		rest := unanswered(t, one, live, 2*time.Second)
		if len(rest) == 0 || len(rest) == n {
			t.Fatalf("%d of %d claims had no answer", len(rest), n)
		}
		t.Logf("%d of %d claims had no answer", len(rest), n)
		if rest = unanswered(t, one, rest, ttl/6); len(rest) > 0 {
			t.Errorf("%d claims had no answer the second time", len(rest))
		}
	})
}

// unanswered beats claims, and returns those that had no answer.
func unanswered(t *testing.T, one driver.Session, live []driver.Claim, limit time.Duration) (rest []driver.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out := make([]driver.Standing, len(live))
	err := one.Beat(ctx, live, out)
	for i, st := range out {
		if st.Gone || st != (driver.Standing{}) && !st.Held {
			t.Fatalf("claim %d: %+v", i, st)
		}
		if !st.Held {
			rest = append(rest, live[i])
		}
	}
	if (err != nil) != (len(rest) > 0) {
		t.Errorf("%v, and %d claims without an answer", err, len(rest))
	}
	return rest
}

// A process holds many names and waits for another: what renews its place in line is sent
// behind what renews its holds.
func TestHoldsAreRenewedBeforePlacesInLine(t *testing.T) {
	t.Parallel()
	const n = 3000
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, link *faultproxy.Proxy, _ *console) {
		holds, waiters := claims(n, "a", "held", true), claims(n, "b", "waited", false)
		enterAll(t, one, holds)
		enterAll(t, one, waiters)
		var mu sync.Mutex // guards what follows
		held, before, waiting := 0, 0, 0
		link.OnChunk(func(c faultproxy.Chunk) {
			if c.Dir != faultproxy.ToServer || c.Stage != faultproxy.Arrived {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			held += strings.Count(string(c.Data), "p1 a")
			if waiting += strings.Count(string(c.Data), "p1 b"); waiting == 0 {
				before = held
			}
		})
		if err := one.Beat(t.Context(), append(holds[:n:n], waiters...), make([]driver.Standing, 2*n)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if held < n*9/10 || waiting < n*9/10 { // an ID may be in two chunks
			t.Errorf("%d holds and %d places were seen", held, waiting)
		}
		if before < n/3 {
			t.Errorf("%d of %d holds were renewed before the first place in line", before, n)
		}
	})
}
