package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	_ "github.com/pawl-go/pawl/etcdlock" // registers etcd:
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/natslock" // registers nats:
	_ "github.com/pawl-go/pawl/zklock"   // registers zk:
)

// etcd#18163: an observer of an empty election to whom two candidates were told at
// once named the younger one. trillian#1388: it said nothing when nobody led.
func TestAnObserverOfAnEmptyElectionNamesTheOlderOfTwo(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) (addr, scheme string){
		"etcd":      func(t testing.TB) (string, string) { return testserver.Etcd(t).Addr(), "etcd://" },
		"NATS":      func(t testing.TB) (string, string) { return testserver.NATS(t).Addr(), "nats://" },
		"ZooKeeper": func(t testing.TB) (string, string) { return testserver.ZooKeeper(t).Addr(), "zk://" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, scheme := start(t)
			way := faultproxy.New(t, addr)
			open := recipetest.On(scheme + addr + "/jobs")
			first, second := open(t, pawl.WithTTL(30*time.Second)), open(t, pawl.WithTTL(30*time.Second))
			seen := watch(t, election.New(recipetest.On(scheme+way.Addr()+"/jobs")(t), "job"))
			expect(t, seen, "-")

			way.BlackHole(faultproxy.Both) // nothing reaches the observer until both are there
			older := campaign(t, election.New(first, "job"), "older")
			wins := make(chan *election.Leadership, 1)
			fails := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // ends with its campaign, or with the test's
				l, err := election.New(second, "job").Campaign(ctx, "younger")
				if err != nil {
					fails <- err
					return
				}
				wins <- l
			}()
			awaitLine(t, second, election.New(second, "job").LockName(), 2)
			way.Reset()
			way.Heal()
			expect(t, seen, "older")

			if err := older.Resign(); err != nil {
				t.Fatal(err)
			}
			expect(t, seen, "-", "younger")
			select {
			case younger := <-wins:
				if err := younger.Resign(); err != nil {
					t.Error(err)
				}
			case err := <-fails:
				t.Fatal(err)
			case <-time.After(20 * time.Second):
				t.Fatal("the younger one leads, and was not told")
			}
			expect(t, seen, "-")
		})
	}
}

// awaitLine waits until the line has n claims.
func awaitLine(t *testing.T, c *pawl.Client, name string, want int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n := 0
		for e, err := range c.List(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Name == name {
				n++
			}
		}
		if n == want {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d stand in line, not %d", n, want)
		}
	}
}
