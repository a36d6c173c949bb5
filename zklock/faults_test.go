package zklock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A fault is what is done to an ensemble.
type fault struct {
	name string
	run  func(*testing.T, *faultyEnsemble)
}

// TestFaultsOfServersOnThreeNodes breaks one ensemble in one way after the other.
func TestFaultsOfServersOnThreeNodes(t *testing.T) {
	t.Parallel()
	breakInTurn(t, []fault{
		{"the leader is killed", leaderKilled},
		{"the leader is stopped", leaderStopped},
		{"the majority is lost and comes back", majorityLost},
		{"every server is restarted", allRestarted},
	})
}

func TestFaultsOfTheNetworkOnThreeNodes(t *testing.T) {
	t.Parallel()
	breakInTurn(t, []fault{
		{"a follower is behind its leader", followerBehind},
		{"followers are cut from their leader", followerCut},
		{"the leader is cut from its followers", leaderCut},
	})
}

func breakInTurn(t *testing.T, faults []fault) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	g := newFaultyEnsemble(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			g.Await()
			f.run(t, g)
		})
	}
}

// kept takes a lock that must survive what is to come.
func kept(t *testing.T, g *faultyEnsemble, path string) *pawl.Lease {
	t.Helper()
	l, err := g.client(t, path).Mutex("kept", pawl.WithTTL(30*time.Second)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func leaderKilled(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	a := newExclusionTest(t)
	a.contend(g.client(t, path), g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, patience, g)
	leader := g.Leader()
	g.Nodes[leader].Kill()
	g.Leader((leader+1)%3, (leader+2)%3)
	a.expect("the leader was killed, another leads", 10, 2*faultTTL, g, (leader+1)%3, (leader+2)%3)
	g.Nodes[leader].Restart()
	g.Await()
	a.expect("it came back", 10, 2*faultTTL, g)
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by an election: %v", err)
	}
}

func leaderStopped(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	leader := g.Leader()
	a := newExclusionTest(t)
	// One is connected to the leader, and can go elsewhere when that is silent.
	a.contend(g.client(t, path, leader, (leader+1)%3), g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, patience, g)
	g.Nodes[leader].Pause()
	g.Leader((leader+1)%3, (leader+2)%3)
	a.expect("the leader was stopped, another leads", 10, 2*faultTTL, g, (leader+1)%3, (leader+2)%3)
	g.Nodes[leader].Resume()
	a.expect("it goes on", 10, 2*faultTTL, g)
	g.Await()
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by an election: %v", err)
	}
}

// One that is entered again must not be told what a follower knows that is behind:
// that a claim is ahead of it which its caller knows to have left.
func followerBehind(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	leader := g.Leader()
	follower := (leader + 1) % 3
	a := open(t, connect(t, []string{g.Nodes[leader].Addr()}, WithPath(path)), 30*time.Second)
	b := open(t, connect(t, []string{g.Nodes[follower].Addr()}, WithPath(path)), 30*time.Second)
	ca, cb := mutex(), mutex()
	hold(t, a, ca)
	stand(t, b, cb)
	for _, link := range append(g.links[[2]int{follower, leader}], g.links[[2]int{leader, follower}]...) {
		link.Delay(faultproxy.Both, 300*time.Millisecond)
	}
	defer g.heal()
	leave(t, a, ca)
	if st := enter(t, b, cb); !st.Held {
		t.Errorf("Enter again, after the only one ahead has left: %+v", st)
	}
}

// The client's link to the follower is good, and the follower answers pings and
// reads: only that nothing is committed any more tells it.
func followerCut(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	leader := g.Leader()
	follower, third := (leader+1)%3, (leader+2)%3
	all := startContests(t, g, path, 6, follower, leader, third)
	waiter := make(chan error, 1)
	stuck := g.client(t, path, follower)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	go func() {
		l, err := stuck.Mutex("contest/0").Lock(ctx)
		if err == nil {
			err = l.Unlock()
		}
		waiter <- err
	}()
	awaitLength(t, connect(t, g.Addrs(), WithPath(path)), "contest/0", 3)
	g.cut(follower, leader)
	finishContests(t, all, g, leader, third)
	g.heal()
	g.Await()
	if err := <-waiter; err != nil { // it stood in line on the follower all the time
		t.Errorf("a waiter on the follower: %v", err)
	}
}

func leaderCut(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	leader := g.Leader()
	one, two := (leader+1)%3, (leader+2)%3
	all := startContests(t, g, path, 4, leader, one, two)
	g.cut(leader, one)
	g.cut(leader, two)
	g.Leader(one, two)
	finishContests(t, all, g, one, two) // from when there is a majority again
	g.heal()
	g.Await()
}

func majorityLost(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	a := newExclusionTest(t)
	c := g.client(t, path)
	a.contend(c, g.client(t, path))
	a.expect("before", 5, patience, g)
	held, err := c.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.Nodes[0].Kill()
	g.Nodes[1].Kill()
	select {
	case <-held.Context().Done():
	case <-time.After(2 * faultTTL):
		t.Error("a lease is believed in without a majority")
	}
	ctx, cancel := context.WithTimeout(t.Context(), faultTTL/4)
	defer cancel()
	if l, err := c.Mutex("other").Lock(ctx); err == nil {
		t.Errorf("a lock was granted without a majority: token %d", l.Token())
	}
	g.Nodes[0].Restart()
	g.Nodes[1].Restart()
	g.Await()
	a.expect("the majority came back", 10, 2*faultTTL, g)
}

func allRestarted(t *testing.T, g *faultyEnsemble) {
	path := pathOf(t)
	a := newExclusionTest(t)
	a.contend(g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, patience, g)
	for _, n := range g.Nodes {
		n.Kill()
	}
	var wg sync.WaitGroup
	for _, n := range g.Nodes {
		wg.Go(n.Restart)
	}
	wg.Wait()
	g.Await()
	a.expect("all came back", 10, 2*faultTTL, g)
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by a restart: %v", err)
	}
}
