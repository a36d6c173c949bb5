package sqllock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The server's clock is set back, and then forward, by an hour each: tokens rise
// all the same, names are given back and taken as ever, and a holder whose time is
// over by the new clock is told before its TTL has passed.
func TestASteppedClockCostsHoldsButNoTokens(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, c *testserver.Clock) (*rig, error){
		"postgres": func(t *testing.T, c *testserver.Clock) (*rig, error) {
			return postgresRig(testserver.PostgreSQLOn(t, c)), nil
		},
		"mariadb": func(t *testing.T, c *testserver.Clock) (*rig, error) { return mysqlRig(testserver.MariaDBOn(t, c)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rigOf(t, 0) // skips where there are no servers
			const ttl = 2 * time.Second
			clock := testserver.NewClock(t)
			r, err := start(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			r.migrate(t)
			a, b := openClient(t, r.url, pawl.WithTTL(ttl)), openClient(t, r.url, pawl.WithTTL(ttl))
			last := uint64(0)
			lock := func(c *pawl.Client) *pawl.Lease {
				t.Helper()
				l, err := c.Mutex("m").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				return l
			}
			for i, step := range []time.Duration{-time.Hour, 2 * time.Hour, -time.Hour} {
				before := lock(a)
				clock.Step(step)
				if step < 0 {
					if err := before.Unlock(); err != nil {
						t.Errorf("step %d, a hold over a clock set back: %v", i, err)
					}
					if err := lock(b).Unlock(); err != nil {
						t.Errorf("step %d, the next: %v", i, err)
					}
					continue
				}
				watch, stepped := stalltest.Start(), time.Now()
				next := lock(b)
				select {
				case <-before.Context().Done():
					if late, lost := time.Since(stepped), watch.End(); late-lost > ttl {
						t.Errorf("step %d: reported after %v; the machine stood still for %v", i, late, lost)
					}
				case <-time.After(5 * ttl):
					t.Fatalf("step %d: a holder whose time was over did not learn of it", i)
				}
				if err := next.Unlock(); err != nil {
					t.Errorf("step %d: %v", i, err)
				}
			}
		})
	}
}
