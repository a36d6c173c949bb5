package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// soakTTL is the TTL of all locks of the soak test.
const soakTTL = 5 * time.Second

// TestSoakFaultsOfThreeMembers makes clients take mutexes, read locks and permits for as
// long as PAWL_SOAK says, while members are killed, stopped and isolated, the leader is
// moved, connections are broken and claims are evicted.
func TestSoakFaultsOfThreeMembers(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	members, network := cluster(t)
	links := make([]*faultproxy.Proxy, len(members.Members)) // from the clients to each member
	for i, m := range members.Members {
		links[i] = faultproxy.New(t, m.Addr())
	}
	a := &audit{t: t, names: map[string]*audited{}, evicted: map[uint64]time.Time{}, counts: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var work sync.WaitGroup
	var clients []*pawl.Client
	for i := range 6 {
		c := connectedClient(t, proxied(links), soakTTL)
		clients = append(clients, c)
		for j := range 4 {
			rnd := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
			work.Go(func() { a.contend(ctx, c, rnd) })
		}
	}
	admin := engine(t, proxied(links))
	work.Go(func() { a.evict(ctx, admin, rand.New(rand.NewPCG(seed, 100))) })
	f := faults{t: t, c: members, network: network, links: links, rnd: rand.New(rand.NewPCG(seed, 101)), a: a}
	for ctx.Err() == nil && !t.Failed() {
		f.strike(ctx)
	}
	cancel()
	work.Wait()
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	a.report(admin)
}

// proxied returns the addresses of links.
func proxied(links []*faultproxy.Proxy) (addrs []string) {
	for _, w := range links {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// faults brings faults to a cluster, one at a time.
type faults struct {
	t       *testing.T
	c       *testserver.EtcdCluster
	network peerNetwork
	links   []*faultproxy.Proxy
	rnd     *rand.Rand
	a       *audit
}

// strike brings one fault and repairs it. The cluster works afterwards.
func (f *faults) strike(ctx context.Context) {
	one := f.rnd.IntN(len(f.c.Members))
	if f.rnd.IntN(2) == 0 {
		one = f.c.Leader()
	}
	member, link := f.c.Members[one], f.links[one]
	switch kind := f.rnd.IntN(7); kind {
	case 0:
		f.a.count("killed")
		member.Kill()
		f.last(ctx, 3*time.Second)
		member.Restart()
	case 1:
		f.a.count("paused")
		member.Pause()
		f.last(ctx, 4*time.Second)
		member.Resume()
	case 2:
		f.a.count("isolated from the others")
		f.network.isolate(one)
		f.last(ctx, 4*time.Second)
		f.network.heal()
	case 3:
		for range 1 + f.rnd.IntN(5) {
			if moveLeader(f.t, f.c) {
				f.a.count("leader moved")
			}
		}
	case 4:
		f.a.count("connections reset")
		link.Reset()
	case 5:
		f.a.count("silent to clients")
		link.BlackHole(faultproxy.Both)
		f.last(ctx, 4*time.Second)
		link.Heal()
	case 6:
		f.a.count("slow to clients")
		link.Delay(faultproxy.Both, time.Duration(f.rnd.Int64N(int64(100*time.Millisecond))))
		f.last(ctx, time.Second)
		link.Heal()
	}
	f.c.Await()
	f.last(ctx, time.Second)
}

// last lets a fault last for a random time up to most.
func (f *faults) last(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(f.rnd.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

// contend takes and releases locks until ctx ends.
func (a *audit) contend(ctx context.Context, c *pawl.Client, rnd *rand.Rand) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(10*time.Second))))
		number := rnd.IntN(3)
		var l *pawl.Lease
		var err error
		name, units, limit := fmt.Sprint("mutex", number), 1, 1
		switch rnd.IntN(6) {
		case 0:
			l, err = c.Mutex(name, pawl.WithFair()).Lock(wait)
		case 1:
			l, err = c.Mutex(name).Lock(wait)
		case 2:
			l, err = c.Mutex(name).TryLock(wait)
		case 3:
			name, units, limit = fmt.Sprint("rwmutex", number), 1, driver.All
			l, err = c.RWMutex(name).RLock(wait)
		case 4:
			name, units, limit = fmt.Sprint("rwmutex", number), driver.All, driver.All
			l, err = c.RWMutex(name).Lock(wait)
		case 5:
			name, units, limit = fmt.Sprint("semaphore", number), 1+rnd.IntN(3), 3
			l, err = c.Semaphore(name, 3).Acquire(wait, units)
		}
		cancel()
		if err != nil {
			a.refused(name, err)
			continue
		}
		a.enter(name, l, units, limit)
		work := time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))
		if rnd.IntN(300) == 0 {
			work = 3 * soakTTL // long enough for beats, and to be notified of an eviction
		}
		select {
		case <-l.Context().Done():
		case <-time.After(work):
		case <-ctx.Done():
		}
		a.leave(name, l)
		switch err := l.Unlock(); {
		case errors.Is(err, pawl.ErrLost):
			a.count("lost")
		case errors.Is(err, pawl.ErrUnknown):
			a.count("unlocks of unknown outcome")
		case err != nil:
			a.t.Errorf("Unlock of %s: %v", name, err)
		}
	}
}

// refused records that a lock could not be taken, for a transient reason.
func (a *audit) refused(name string, err error) {
	switch {
	case errors.Is(err, pawl.ErrUnreachable):
		a.count("store unreachable")
	case errors.Is(err, pawl.ErrHeld), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.count("not acquired in time")
	default:
		a.t.Errorf("lock %s: %v", name, err)
	}
}

// evict breaks claims at random until ctx ends.
func (a *audit) evict(ctx context.Context, e *Engine, rnd *rand.Rand) {
	kinds := []string{"mutex", "rwmutex", "semaphore"}
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(rnd.Int64N(int64(500 * time.Millisecond)))):
		case <-ctx.Done():
			return
		}
		line, err := e.Line(ctx, fmt.Sprint(kinds[rnd.IntN(3)], rnd.IntN(3)))
		if err != nil || len(line) == 0 {
			continue
		}
		x := line[rnd.IntN(min(len(line), 3))]
		a.evicting(x)
		switch err := e.Evict(ctx, x); {
		case err == nil:
			a.count("evicted")
			a.evictedNow(x)
		case errors.Is(err, driver.ErrGone): // it was not there any more
			a.notEvicted(x)
		case !errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil:
			a.t.Errorf("Evict: %v", err)
		}
	}
}
