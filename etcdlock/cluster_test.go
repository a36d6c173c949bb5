package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A mesh is the network between the members of a cluster.
type mesh map[[2]int]*faultproxy.Proxy

// cluster starts three members on a network that the test can cut.
func cluster(t *testing.T) (*testserver.EtcdCluster, mesh) {
	m := mesh{}
	c := testserver.NewEtcds(t, 3, func(from, to int, addr string) string {
		m[[2]int{from, to}] = faultproxy.New(t, addr)
		return m[[2]int{from, to}].Addr()
	})
	return c, m
}

// isolate cuts a member from the others; clients still reach all.
func (m mesh) isolate(member int) {
	for way, p := range m {
		if way[0] == member || way[1] == member {
			p.BlackHole(faultproxy.Both)
		}
	}
}

func (m mesh) heal() {
	for _, p := range m {
		p.Reset()
		p.Heal()
	}
}

// An arena is where contenders of several clients hold one name after the other. It
// judges by itself: a lease is over once it says so, and not before.
type arena struct {
	t      *testing.T
	mu     sync.Mutex // guards what follows
	holder *pawl.Lease
	token  uint64
	holds  int
	told   chan struct{} // closed and replaced at every hold
	faults []string
}

func (a *arena) enter(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder != nil && a.holder.Err() == nil {
		a.faults = append(a.faults, fmt.Sprintf("two hold: tokens %d and %d", a.holder.Token(), l.Token()))
	}
	if l.Token() <= a.token {
		a.faults = append(a.faults, fmt.Sprintf("token %d after %d", l.Token(), a.token))
	}
	a.holder, a.token = l, l.Token()
	a.holds++
	close(a.told)
	a.told = make(chan struct{})
}

func (a *arena) leave(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder == l {
		a.holder = nil
	}
}

// contend has n clients hold name again and again until the test ends.
func contend(t *testing.T, addrs []string, name string, ttl time.Duration, n int) *arena {
	a := &arena{t: t, told: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range n {
		c := client(t, addrs, ttl)
		work.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex(name).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil && !errors.Is(err, pawl.ErrUnreachable) {
						t.Errorf("Lock: %v", err)
					}
					continue
				}
				a.enter(l)
				select { // work for a while, also through an election
				case <-l.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
				a.leave(l)
				if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		work.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		t.Logf("%d holds", a.holds)
		for _, f := range a.faults {
			t.Error(f)
		}
	})
	return a
}

// goesOn waits until a waiter has had its turn: the first hold after a fault may
// have been granted before it, the second was not. Four more show that it stays so.
func (a *arena) goesOn(what string, within time.Duration) {
	a.t.Helper()
	from := time.Now()
	var at []time.Duration
	for n := range 6 {
		a.mu.Lock()
		told := a.told
		a.mu.Unlock()
		limit := within
		if n >= 2 {
			limit *= 2
		}
		select {
		case <-told:
			at = append(at, time.Since(from).Round(time.Millisecond))
		case <-time.After(limit - time.Since(from)):
			a.t.Fatalf("%s: %d holds in %v, at %v", what, n, limit, at)
		}
	}
	a.t.Logf("%s: holds after %v", what, at)
}

// TestFaultsOfThreeMembersCostNoExclusion goes through what happens to a cluster, one
// after the other, while four clients contend.
func TestFaultsOfThreeMembersCostNoExclusion(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	c, network := cluster(t)
	a := contend(t, c.Addrs(), "name", ttl, 4)
	// A lease that is held throughout must outlive every change of leader (consul#1162).
	kept := lock(t, client(t, c.Addrs(), 30*time.Second).Mutex("kept"))
	a.goesOn("at first", 4*ttl)
	others := func(one int) (rest []int) {
		for i := range c.Members {
			if i != one {
				rest = append(rest, i)
			}
		}
		return rest
	}

	leader := c.Leader()
	c.Members[leader].Kill()
	a.goesOn("the leader was killed", 2*ttl)
	c.Members[leader].Restart()
	c.Await()
	a.goesOn("it came back", 2*ttl)

	leader = c.Leader()
	c.Members[leader].Pause()
	c.Leader(others(leader)...)
	a.goesOn("the leader stands still", 2*ttl+soon) // calls that went to it end by their own time
	c.Members[leader].Resume()
	a.goesOn("it moves again", 2*ttl)

	leader = c.Leader()
	network.isolate(leader)
	c.Leader(others(leader)...)
	a.goesOn("the leader is cut off", 2*ttl+soon)
	network.heal()
	c.Await()
	a.goesOn("it is back", 2*ttl)

	if kept.Err() != nil {
		t.Errorf("a lease of 30 s was lost by a change of leader: %v", kept.Err())
	}
	leader = c.Leader()
	for _, i := range others(leader) {
		c.Members[i].Stop()
	}
	time.Sleep(ttl + ttl/2) // nobody can be told what must not happen meanwhile: a hold in the minority
	for _, i := range others(leader) {
		c.Members[i].Restart()
	}
	c.Await()
	a.goesOn("the majority was lost and is back", 2*ttl)

	for _, s := range c.Members {
		s.Stop()
	}
	for _, s := range c.Members {
		s.Restart()
	}
	c.Await()
	a.goesOn("every member was restarted", 2*ttl)
}

// cilium PR#23590, etcd#7247: the watch of a waiter was on a member that was cut off,
// and stayed silent.
func TestAWaiterOnACutOffMemberIsToldOfItsTurn(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	cut := (c.Leader() + 1) % 3
	rest := []string{c.Members[(cut+1)%3].Addr(), c.Members[(cut+2)%3].Addr()}
	holder, waiter := open(t, engine(t, rest), time.Minute), engine(t, []string{c.Members[cut].Addr()})
	s := open(t, waiter, time.Minute)
	ca, cb := mutex("name"), mutex("name")
	hold(t, holder, ca)
	st := wait(t, s, cb)
	got := begin(t, func() (driver.Standing, error) {
		for st := st; ; {
			next, err := s.Await(t.Context(), cb, st)
			switch {
			case errors.Is(err, driver.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
				continue // as the core does
			case err != nil || next.Held || next.Gone:
				return next, err
			}
			st = next
		}
	})
	watching(t, c.Members[cut], 2)
	waiter.client.SetEndpoints(c.Addrs()...) // from now on it could go elsewhere
	network.isolate(cut)
	leave(t, holder, ca)
	st, err := got.within(t, 6*soon, "the turn of a waiter on a member that is cut off")
	if err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A client that reaches only the minority must lose what it holds before the majority
// gives it to another.
func TestAHolderInTheMinorityLosesBeforeTheRivalHolds(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	for name, of := range map[string]int{"on the old leader": 0, "on a follower": 1} {
		member := (c.Leader() + of) % 3
		rest := []string{c.Members[(member+1)%3].Addr(), c.Members[(member+2)%3].Addr()}
		mine, rival := client(t, []string{c.Members[member].Addr()}, 3*time.Second), client(t, rest, 3*time.Second)
		l := lock(t, mine.Mutex(name))
		got := begin(t, func() (*pawl.Lease, error) { return rival.Mutex(name).Lock(t.Context()) })
		awaitLine(t, engine(t, c.Addrs()), name, 2)
		network.isolate(member)
		next, err := got.within(t, 8*soon, "the rival's turn")
		if err != nil {
			t.Fatal(err)
		}
		if l.Err() == nil || l.Context().Err() == nil {
			t.Errorf("%s: the rival holds, and the first was not told", name)
		}
		if next.Token() <= l.Token() {
			t.Errorf("%s: token %d after %d", name, next.Token(), l.Token())
		}
		if err := next.Unlock(); err != nil { // while there is a leader: healing may cost another election
			t.Error(err)
		}
		network.heal()
		c.Await()
		_ = l.Unlock() // it was lost
	}
}
