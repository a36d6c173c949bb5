package zklock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// faultTTL is what the clients of the fault tests use: some of the faults take
// two seconds to be noticed by the servers themselves.
const faultTTL = 6 * time.Second

// A ground is three nodes whose ways to each other can be cut.
type ground struct {
	*testserver.Ensemble
	mu   sync.Mutex // guards what follows
	ways map[[2]int][]*faultproxy.Proxy
	maps [3]map[string]string // for each node, where it finds the ports of the others
}

func newGround(t *testing.T) *ground {
	g := &ground{ways: map[[2]int][]*faultproxy.Proxy{}, maps: [3]map[string]string{{}, {}, {}}}
	g.Ensemble = testserver.ZooKeepers(t, 3, func(from, to int, addr string) string {
		way := faultproxy.New(t, patient(t, addr, func(hello []byte) []byte { return g.translate(to, hello) }))
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ways[[2]int{from, to}] = append(g.ways[[2]int{from, to}], way)
		g.maps[from][addr] = way.Addr()
		return way.Addr()
	})
	return g
}

// translate has a node find another where the map says. One that is called by a
// node with a smaller number hangs up and calls back, at the address that it was
// told; that way would not be cut with the rest.
func (g *ground) translate(node int, hello []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for own, found := range g.maps[node] {
		hello = bytes.ReplaceAll(hello, []byte(own), []byte(found))
	}
	return hello
}

// cut cuts the ways between two nodes; heal opens them again, with new connections.
func (g *ground) cut(a, b int) {
	for _, way := range append(g.ways[[2]int{a, b}], g.ways[[2]int{b, a}]...) {
		way.BlackHole(faultproxy.Both)
	}
}

func (g *ground) heal() {
	for _, ways := range g.ways {
		for _, way := range ways {
			way.Reset()
			way.Heal()
		}
	}
}

// client returns a client that uses these nodes only; none given: all.
func (g *ground) client(t *testing.T, path string, nodes ...int) *pawl.Client {
	t.Helper()
	addrs := g.Addrs()
	if len(nodes) > 0 {
		addrs = nil
		for _, n := range nodes {
			addrs = append(addrs, g.Nodes[n].Addr())
		}
	}
	c := pawl.New(connect(t, addrs, Path(path)), pawl.WithTTL(faultTTL))
	t.Cleanup(func() { c.Close() })
	return c
}

// An arena is where clients take one lock in turn, and watches them.
type arena struct {
	t     *testing.T
	mu    sync.Mutex // guards what follows
	live  map[*pawl.Lease]bool
	last  uint64
	turns int
	took  chan struct{} // closed and replaced by every turn
}

func newArena(t *testing.T) *arena {
	return &arena{t: t, live: map[*pawl.Lease]bool{}, took: make(chan struct{})}
}

// enter notes that somebody holds. Whoever held before must know that it does not.
func (a *arena) enter(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.live {
		if other.Err() == nil {
			a.t.Errorf("token %d is held while token %d is", l.Token(), other.Token())
		}
	}
	if l.Token() <= a.last {
		a.t.Errorf("token %d follows token %d", l.Token(), a.last)
	}
	a.live[l], a.last = true, l.Token()
	a.turns++
	close(a.took)
	a.took = make(chan struct{})
}

func (a *arena) exit(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, l)
}

// play has clients take the lock again and again until the test ends.
func (a *arena) play(clients ...*pawl.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex("arena").Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						a.t.Errorf("Lock: %v", err)
					}
					return
				}
				a.enter(l)
				select {
				case <-time.After(20 * time.Millisecond): // the work
				case <-l.Context().Done():
				}
				a.exit(l)
				if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
					a.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	a.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// expect fails unless n more turns are taken within so long from begun.
func (a *arena) expect(what string, n int, begun time.Time, within time.Duration) {
	a.t.Helper()
	a.mu.Lock()
	goal := a.turns + n
	a.mu.Unlock()
	for {
		a.mu.Lock()
		turns, took := a.turns, a.took
		a.mu.Unlock()
		if turns >= goal {
			a.t.Logf("%s: the waiters went on within %v", what, time.Since(begun).Round(time.Millisecond))
			return
		}
		select {
		case <-took:
		case <-time.After(time.Until(begun.Add(within))):
			a.t.Fatalf("%s: %d of %d turns within %v", what, n-(goal-turns), n, within)
		}
	}
}

// TestFaultsOnThreeNodes breaks one ensemble in one way after the other.
func TestFaultsOnThreeNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	g := newGround(t)
	for _, f := range []struct {
		name string
		run  func(*testing.T, *ground)
	}{
		{"the leader is killed", leaderKilled},
		{"the leader is stopped", leaderStopped},
		{"followers are cut from their leader", followerCut},
		{"the leader is cut from its followers", leaderCut},
		{"the majority is lost and comes back", majorityLost},
		{"every server is restarted", allRestarted},
	} {
		t.Run(f.name, func(t *testing.T) {
			g.Await()
			f.run(t, g)
		})
	}
}

// kept takes a lock that must survive what is to come.
func kept(t *testing.T, g *ground, path string) *pawl.Lease {
	t.Helper()
	l, err := g.client(t, path).Mutex("kept", pawl.WithTTL(30*time.Second)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func leaderKilled(t *testing.T, g *ground) {
	path := pathOf(t)
	a := newArena(t)
	a.play(g.client(t, path), g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, time.Now(), patience)
	leader := g.Leader()
	g.Nodes[leader].Kill()
	a.expect("the leader was killed", 10, time.Now(), 2*faultTTL)
	g.Nodes[leader].Restart()
	g.Await()
	a.expect("it came back", 10, time.Now(), 2*faultTTL)
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by an election: %v", err)
	}
}

func leaderStopped(t *testing.T, g *ground) {
	path := pathOf(t)
	leader := g.Leader()
	a := newArena(t)
	// One is connected to the leader, and can go elsewhere when that is silent.
	a.play(g.client(t, path, leader, (leader+1)%3), g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, time.Now(), patience)
	g.Nodes[leader].Pause()
	a.expect("the leader was stopped", 10, time.Now(), 2*faultTTL)
	g.Nodes[leader].Resume()
	a.expect("it goes on", 10, time.Now(), 2*faultTTL)
	g.Await()
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by an election: %v", err)
	}
}

// A duel is a lease in a client that is about to be cut off, and a rival that
// stands in line for the same name.
type duel struct {
	name string
	held *pawl.Lease
	next chan result // what the rival's Lock returns
}

type result struct {
	lease *pawl.Lease
	err   error
}

// duels has names taken by clients on one node, one after the other, so that their
// beats are in different phases.
func duels(t *testing.T, g *ground, path string, n, holder int, rivals ...int) []duel {
	t.Helper()
	all := make([]duel, n)
	rival, watcher := g.client(t, path, rivals...), connect(t, g.Addrs(), Path(path))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var waits sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		waits.Wait()
	})
	for i := range all {
		d := duel{name: fmt.Sprintf("duel/%d", i), next: make(chan result, 1)}
		var err error
		if d.held, err = g.client(t, path, holder).Mutex(d.name).Lock(ctx); err != nil {
			t.Fatal(err)
		}
		waits.Go(func() {
			l, err := rival.Mutex(d.name).Lock(ctx)
			d.next <- result{l, err}
		})
		standing(t, watcher, d.name, 2)
		all[i] = d
		time.Sleep(faultTTL / 3 / time.Duration(n)) // to spread the phases is all it is for
	}
	return all
}

// standing waits until so many are in a line.
func standing(t *testing.T, e *Engine, name string, n int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if got := len(listed(t, e, name)); got == n {
			return
		} else if time.Since(begun) > patience {
			t.Fatalf("%d are in line for %q, not %d", got, name, n)
		}
	}
}

// fight waits until every rival holds, and fails where the other still believed.
func fight(t *testing.T, all []duel, begun time.Time) {
	t.Helper()
	var last time.Duration
	for _, d := range all {
		r := <-d.next // ends with its context
		if r.err != nil {
			t.Errorf("%s: %v", d.name, r.err)
			continue
		}
		if d.held.Err() == nil {
			t.Errorf("%s: both hold, %v after the cut", d.name, time.Since(begun))
		}
		if r.lease.Token() <= d.held.Token() {
			t.Errorf("%s: token %d follows %d", d.name, r.lease.Token(), d.held.Token())
		}
		last = time.Since(begun)
		if last > 2*faultTTL {
			t.Errorf("%s: the rival waited %v", d.name, last)
		}
		if err := r.lease.Unlock(); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
	}
	t.Logf("the rivals held within %v of the cut", last.Round(time.Millisecond))
}

// The client's link to the follower is good, and the follower answers pings and
// reads: only that nothing is committed any more tells it.
func followerCut(t *testing.T, g *ground) {
	path := pathOf(t)
	leader := g.Leader()
	follower, third := (leader+1)%3, (leader+2)%3
	all := duels(t, g, path, 6, follower, leader, third)
	waiter := make(chan error, 1)
	stuck := g.client(t, path, follower)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	go func() {
		l, err := stuck.Mutex("duel/0").Lock(ctx)
		if err == nil {
			err = l.Unlock()
		}
		waiter <- err
	}()
	standing(t, connect(t, g.Addrs(), Path(path)), "duel/0", 3)
	g.cut(follower, leader)
	fight(t, all, time.Now())
	g.heal()
	g.Await()
	if err := <-waiter; err != nil { // it stood in line on the follower all the time
		t.Errorf("a waiter on the follower: %v", err)
	}
}

func leaderCut(t *testing.T, g *ground) {
	path := pathOf(t)
	leader := g.Leader()
	one, two := (leader+1)%3, (leader+2)%3
	all := duels(t, g, path, 4, leader, one, two)
	g.cut(leader, one)
	g.cut(leader, two)
	fight(t, all, time.Now())
	g.heal()
	g.Await()
}

func majorityLost(t *testing.T, g *ground) {
	path := pathOf(t)
	a := newArena(t)
	c := g.client(t, path)
	a.play(c, g.client(t, path))
	a.expect("before", 5, time.Now(), patience)
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
	a.expect("the majority came back", 10, time.Now(), 2*faultTTL)
}

func allRestarted(t *testing.T, g *ground) {
	path := pathOf(t)
	a := newArena(t)
	a.play(g.client(t, path), g.client(t, path))
	long := kept(t, g, path)
	a.expect("before", 5, time.Now(), patience)
	for _, n := range g.Nodes {
		n.Kill()
	}
	var wg sync.WaitGroup
	for _, n := range g.Nodes {
		wg.Go(n.Restart)
	}
	wg.Wait()
	g.Await()
	a.expect("all came back", 10, time.Now(), 2*faultTTL)
	if err := long.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost by a restart: %v", err)
	}
}
