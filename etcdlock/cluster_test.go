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

// cluster starts three members on a network that the test can cut.
func cluster(t *testing.T) (*testserver.EtcdCluster, *faultproxy.Network) {
	n := faultproxy.NewNetwork(t)
	return testserver.NewEtcds(t, 3, n.Reach), n
}

// TestExclusionSurvivesFaultsOfThreeMembers goes through the faults of members one by one.
func TestExclusionSurvivesFaultsOfThreeMembers(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	exclusionSurvivesFaults(t, c, network)
}

// TestAnIsolatedMember runs both cases on one cluster: several clusters at once would
// disturb each other's elections.
func TestAnIsolatedMember(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	for _, f := range []struct {
		name string
		run  func(*testing.T, *testserver.EtcdCluster, *faultproxy.Network)
	}{
		{"does not keep a waiter from its turn", isolatedWaiterIsNotified},
		{"ends its holder before the rival holds", minorityLoses},
	} {
		t.Run(f.name, func(t *testing.T) {
			c.Await()
			f.run(t, c, network)
			network.Heal()
		})
	}
}

// rest are all members except one.
func rest(c *testserver.EtcdCluster, one int) (members []int) {
	for i := range c.Members {
		if i != one {
			members = append(members, i)
		}
	}
	return members
}

// addrsOf returns the addresses of members.
func addrsOf(c *testserver.EtcdCluster, members ...int) (addrs []string) {
	for _, i := range members {
		addrs = append(addrs, c.Members[i].Addr())
	}
	return addrs
}

// exclusionSurvivesFaults goes through the faults of a cluster one by one, while four
// clients contend. Time is measured from when the servers have noticed the fault and
// elected a leader.
func exclusionSurvivesFaults(t *testing.T, c *testserver.EtcdCluster, network *faultproxy.Network) {
	const ttl = 5 * time.Second
	a := contend(t, c, "name", ttl, 4)
	// A lease that is held throughout must outlive every change of leader (consul#1162).
	kept := lock(t, connectedClient(t, c.Addrs(), 30*time.Second).Mutex("kept"))
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
	a.goesOn("the leader is stopped", 2*ttl+soon, rest(c, leader)...) // calls that went to it end by their timeout
	c.Members[leader].Resume()
	a.goesOn("it runs again", 2*ttl)

	leader = c.Leader()
	network.Isolate(leader)
	c.Leader(rest(c, leader)...)
	a.goesOn("the leader is isolated", 2*ttl+soon, rest(c, leader)...)
	network.Heal()
	c.Await()
	a.goesOn("it is back", 2*ttl)

	if kept.Err() != nil {
		t.Errorf("a lease of 30 s was lost by a change of leader: %v", kept.Err())
	}
	leader = c.Leader()
	for _, i := range rest(c, leader) {
		c.Members[i].Kill()
	}
	time.Sleep(ttl + ttl/2) // in this time no claim may be granted by the minority, and nothing reports that
	for _, i := range rest(c, leader) {
		c.Members[i].Restart()
	}
	c.Await()
	a.goesOn("the majority was lost and is back", 2*ttl)

	for _, s := range c.Members {
		s.Kill() // a leader that is asked to stop hands over first, which takes seconds
	}
	for _, s := range c.Members {
		s.Restart()
	}
	c.Await()
	a.goesOn("every member was restarted", 2*ttl)
}

// cilium PR#23590, etcd#7247: the watch of a waiter was on an isolated member, and stayed
// silent.
func isolatedWaiterIsNotified(t *testing.T, c *testserver.EtcdCluster, network *faultproxy.Network) {
	isolated := (c.Leader() + 1) % 3
	holder, waiter := open(t, engine(t, addrsOf(c, rest(c, isolated)...)), longTTL), engine(t, addrsOf(c, isolated))
	s := open(t, waiter, longTTL)
	ca, cb := mutex("name"), mutex("name")
	hold(t, holder, ca)
	st := wait(t, s, cb)
	got := begin(t, func() (driver.Standing, error) { return untilReachable(t.Context(), s, cb, st) })
	listening(t, c.Members[isolated])
	clientOf(waiter).SetEndpoints(c.Addrs()...) // from now on it can use the other members
	network.Isolate(isolated)
	left := false
	for begun := time.Now(); !left && time.Since(begun) < clusterTimeout; { // as the core does
		err := holder.Leave(t.Context(), ca)
		left = err == nil || errors.Is(err, driver.ErrGone)
	}
	if !left {
		t.Fatal("Leave fails with a majority")
	}
	st, err := got.within(t, 6*soon, "the turn of a waiter on an isolated member")
	if err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// A client that reaches only the minority must lose its lock before the majority grants it
// to another.
func minorityLoses(t *testing.T, c *testserver.EtcdCluster, network *faultproxy.Network) {
	for name, of := range map[string]int{"on the old leader": 0, "on a follower": 1} {
		c.Await()
		member := (c.Leader() + of) % 3
		mine := connectedClient(t, addrsOf(c, member), 3*time.Second)
		rival := connectedClient(t, addrsOf(c, rest(c, member)...), 30*time.Second)
		l, got := duel(t, engine(t, c.Addrs()), mine, rival, name)
		network.Isolate(member)
		next, err := got.within(t, 8*soon, "the rival's turn")
		if err != nil {
			t.Fatal(err)
		}
		if l.Err() == nil || l.Context().Err() == nil {
			t.Errorf("%s: the rival holds, and the first holder was not notified", name)
		}
		if next.Token() <= l.Token() {
			t.Errorf("%s: token %d after %d", name, next.Token(), l.Token())
		}
		if err := next.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // then it is released in the background
			t.Error(err)
		}
		network.Heal()
		_ = l.Unlock() // it was lost
	}
}

// duel makes mine hold a name and rival wait for it. On a machine that stalls for a TTL,
// mine may lose its lease before that; then it starts over.
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
	t.Fatal("no lease lasted until a rival was in line")
	return nil, nil
}
