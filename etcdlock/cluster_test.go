package etcdlock

import (
	"context"
	"errors"
	"fmt"
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

// TestFaultsOfThreeMembersCostNoExclusion goes through the faults of members one after
// the other.
func TestFaultsOfThreeMembersCostNoExclusion(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	faultsCostNoExclusion(t, c, network)
}

// TestAMemberThatIsCutOff has one cluster for both: more of them beside each other
// would be at each other's elections.
func TestAMemberThatIsCutOff(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	for _, f := range []struct {
		name string
		run  func(*testing.T, *testserver.EtcdCluster, mesh)
	}{
		{"lets a waiter be told of its turn", cutOffWaiterIsTold},
		{"loses its holder before the rival holds", minorityLoses},
	} {
		t.Run(f.name, func(t *testing.T) {
			c.Await()
			f.run(t, c, network)
			network.heal()
		})
	}
}

// rest are the members but for one.
func rest(c *testserver.EtcdCluster, one int) (members []int) {
	for i := range c.Members {
		if i != one {
			members = append(members, i)
		}
	}
	return members
}

// addrsOf returns where these members serve.
func addrsOf(c *testserver.EtcdCluster, members ...int) (addrs []string) {
	for _, i := range members {
		addrs = append(addrs, c.Members[i].Addr())
	}
	return addrs
}

// faultsCostNoExclusion goes through what happens to a cluster, one after the other,
// while four clients contend. The servers need their time to notice and to elect;
// what is measured begins when they have.
func faultsCostNoExclusion(t *testing.T, c *testserver.EtcdCluster, network mesh) {
	const ttl = 5 * time.Second
	a := contend(t, c, "name", ttl, 4)
	// A lease that is held throughout must outlive every change of leader (consul#1162).
	kept := lock(t, acquainted(t, c.Addrs(), 30*time.Second).Mutex("kept"))
	a.goesOn("at first", 4*ttl)

	leader := c.Leader()
	c.Members[leader].Kill()
	c.Leader(rest(c, leader)...)
	a.goesOn("the leader was killed", 2*ttl, rest(c, leader)...)
	c.Members[leader].Restart()
	c.Await()
	a.goesOn("it came back", 2*ttl)

	leader = c.Leader()
	c.Members[leader].Pause()
	c.Leader(rest(c, leader)...)
	a.goesOn("the leader stands still", 2*ttl+soon, rest(c, leader)...) // calls that went to it end by their own time
	c.Members[leader].Resume()
	a.goesOn("it moves again", 2*ttl)

	leader = c.Leader()
	network.isolate(leader)
	c.Leader(rest(c, leader)...)
	a.goesOn("the leader is cut off", 2*ttl+soon, rest(c, leader)...)
	network.heal()
	c.Await()
	a.goesOn("it is back", 2*ttl)

	if kept.Err() != nil {
		t.Errorf("a lease of 30 s was lost by a change of leader: %v", kept.Err())
	}
	leader = c.Leader()
	for _, i := range rest(c, leader) {
		c.Members[i].Kill()
	}
	time.Sleep(ttl + ttl/2) // nobody can be told what must not happen meanwhile: a hold in the minority
	for _, i := range rest(c, leader) {
		c.Members[i].Restart()
	}
	c.Await()
	a.goesOn("the majority was lost and is back", 2*ttl)

	for _, s := range c.Members {
		s.Kill() // one that is asked to stop looks for a successor for seconds
	}
	for _, s := range c.Members {
		s.Restart()
	}
	c.Await()
	a.goesOn("every member was restarted", 2*ttl)
}

// cilium PR#23590, etcd#7247: the watch of a waiter was on a member that was cut off,
// and stayed silent.
func cutOffWaiterIsTold(t *testing.T, c *testserver.EtcdCluster, network mesh) {
	cut := (c.Leader() + 1) % 3
	holder, waiter := open(t, engine(t, addrsOf(c, rest(c, cut)...)), unbeaten), engine(t, addrsOf(c, cut))
	s := open(t, waiter, unbeaten)
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
	listening(t, c.Members[cut])
	waiter.client.SetEndpoints(c.Addrs()...) // from now on it could go elsewhere
	network.isolate(cut)
	left := false
	for begun := time.Now(); !left && time.Since(begun) < patient; { // as the core does
		err := holder.Leave(t.Context(), ca)
		left = err == nil || errors.Is(err, driver.ErrGone)
	}
	if !left {
		t.Fatal("a majority does not let a claim be given back")
	}
	st, err := got.within(t, 6*soon, "the turn of a waiter on a member that is cut off")
	if err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A client that reaches only the minority must lose what it holds before the majority
// gives it to another.
func minorityLoses(t *testing.T, c *testserver.EtcdCluster, network mesh) {
	for name, of := range map[string]int{"on the old leader": 0, "on a follower": 1} {
		c.Await()
		member := (c.Leader() + of) % 3
		mine := acquainted(t, addrsOf(c, member), 3*time.Second)
		rival := acquainted(t, addrsOf(c, rest(c, member)...), 30*time.Second)
		l, got := duel(t, engine(t, c.Addrs()), mine, rival, name)
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
		if err := next.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // what is not answered now is left later
			t.Error(err)
		}
		network.heal()
		_ = l.Unlock() // it was lost
	}
}

// duel has mine hold a name and rival stand in line for it. A machine that stands
// still for a TTL may cost mine the lease before that; then it begins again.
func duel(t *testing.T, watcher *Engine, mine, rival *pawl.Client, name string) (*pawl.Lease, *promise[*pawl.Lease]) {
	t.Helper()
	for try := range 5 {
		name := fmt.Sprintf("%s, try %d", name, try)
		l := lock(t, mine.Mutex(name))
		ctx, giveUp := context.WithCancel(t.Context())
		got := begin(t, func() (*pawl.Lease, error) { return rival.Mutex(name).Lock(ctx) })
		t.Cleanup(giveUp) // before got is waited for
		for l.Err() == nil {
			if keys := keysOf(t, watcher, name); len(keys) == 2 {
				return l, got
			}
		}
		giveUp()
		t.Logf("%v before a rival was in line", l.Err())
	}
	t.Fatal("no lease outlived a rival's way into the line")
	return nil, nil
}
