package natslock

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

// Law 2 and 3: one holds at a time, with growing tokens, whatever happens to the leader
// of the stream and to the majority. A long lease outlives each change of leader.
func TestExclusionSurvivesFaultsOfThreeServers(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	a := contend(t, c, 4)
	kept := mustLock(t, clusterClient(t, longTTL, c.Addrs()...), "kept")
	a.goOn("at first")

	leader := c.Leader(testStream)
	c.Members[leader].Kill()
	c.Leader(testStream, c.Except(leader)...)
	a.goOn("the leader was killed", c.Except(leader)...)
	c.Members[leader].Restart()
	c.Await()
	a.goOn("it came back")

	leader = c.Leader(testStream)
	c.Members[leader].Pause()
	c.Leader(testStream, c.Except(leader)...)
	a.goOn("the leader is stopped", c.Except(leader)...)
	c.Members[leader].Resume()
	c.Await()
	a.goOn("it runs again")

	leader = c.Leader(testStream)
	network.Isolate(leader)
	c.Leader(testStream, c.Except(leader)...)
	a.goOn("the leader is isolated", c.Except(leader)...)
	network.Heal()
	c.Await()
	a.goOn("it is back")

	if kept.Err() != nil {
		t.Errorf("a lease of %v was lost by a change of leader: %v", longTTL, kept.Err())
	}
	leader = c.Leader(testStream)
	for _, i := range c.Except(leader) {
		c.Members[i].Kill()
	}
	time.Sleep(clusterTTL + clusterTTL/2) // in this time the minority may grant nothing, and nothing reports that
	for _, i := range c.Except(leader) {
		c.Members[i].Restart()
	}
	c.Await()
	a.goOn("the majority was lost and is back")

	for _, s := range c.Members {
		s.Kill()
	}
	for _, s := range c.Members {
		s.Restart()
	}
	c.Await()
	a.goOn("all were restarted")
}

// Law 2 and 3, while one server after the other is killed and comes back, leader or not.
func TestServersKilledInTurnNeverLetTwoHold(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	a := contend(t, c, 6)
	a.goOn("at first")
	for i := range c.Members {
		c.Members[i].Kill()
		a.goOn(fmt.Sprintf("server %d was killed", i), c.Except(i)...)
		c.Members[i].Restart()
		c.Await()
	}
	a.goOn("all are back")
}

// Law 3 and 4: a restart of all servers ends no hold and gives no token again.
func TestHoldsSurviveARestartOfAllServers(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	client, rival := clusterClient(t, longTTL, c.Addrs()...), clusterClient(t, longTTL, c.Addrs()...)
	var tokens []uint64
	for range 20 { // the last writes before the restart are at stake
		l := mustLock(t, client, "name")
		tokens = append(tokens, l.Token())
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	held := mustLock(t, client, "name")
	for _, s := range c.Members {
		s.Kill()
	}
	for _, s := range c.Members {
		s.Restart()
	}
	c.Await()
	for begun := time.Now(); ; { // clients come back in their own time
		_, err := rival.Mutex("name").TryLock(t.Context())
		if errors.Is(err, pawl.ErrHeld) {
			break
		}
		if err == nil || time.Since(begun) > clusterTimeout {
			t.Fatalf("TryLock of a name that is held: %v", err)
		}
	}
	if err := held.Confirm(t.Context()); err != nil {
		t.Errorf("a lease of %v does not survive a restart: %v", longTTL, err)
	}
	if err := held.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	next := mustLock(t, rival, "name")
	for _, token := range append(tokens, held.Token()) {
		if next.Token() <= token {
			t.Errorf("token %d after %d", next.Token(), token)
		}
	}
	if err := next.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// TestAnIsolatedServer runs its cases on one cluster, with the leader and with another.
func TestAnIsolatedServer(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	for i, name := range []string{"that led grants nothing that the others have granted", "that followed grants nothing that the others have granted"} {
		t.Run(name, func(t *testing.T) { minorityGrantsNothing(t, c, network, i) })
	}
}

// Law 2: a client that reaches only the minority loses its lock before the majority
// grants it to another, and does not get it back while the other holds.
func minorityGrantsNothing(t *testing.T, c *testserver.NATSCluster, network *faultproxy.Network, of int) {
	name := fmt.Sprint("name ", of)
	third := clusterClient(t, longTTL, c.Addrs()...)
	member := (c.Leader(testStream) + of) % 3
	mine := clusterClient(t, clusterTTL, c.Addrs(member)...)
	rival := clusterClient(t, longTTL, c.Addrs(c.Except(member)...)...)
	held := mustLock(t, mine, name)
	network.Isolate(member)
	defer c.Await()
	defer network.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), 2*clusterTimeout)
	defer cancel()
	next, err := rival.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatalf("the rival on the majority: %v", err)
	}
	if held.Err() == nil || held.Context().Err() == nil {
		t.Error("the rival holds, and the first holder was not told of its loss")
	}
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	for range 3 {
		if l, err := mine.Mutex(name).TryLock(ctx); err == nil {
			t.Errorf("token %d is granted by the minority, while the majority has granted %d", l.Token(), next.Token())
		}
	}
	network.Heal()
	c.Await()
	if l, err := mine.Mutex(name).TryLock(ctx); err == nil {
		t.Errorf("token %d is granted, while %d holds", l.Token(), next.Token())
	}
	if next.Err() != nil {
		t.Errorf("the rival's lease of %v: %v", longTTL, next.Err())
	}
	if err := next.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // then it is left later
		t.Error(err)
	}
	_ = held.Unlock() // it was lost
	if l, err := third.Mutex(name).Lock(ctx); err != nil {
		t.Errorf("the next: %v", err)
	} else if l.Token() <= next.Token() {
		t.Errorf("token %d after %d", l.Token(), next.Token())
	}
}

// Law 15: a leader that was stopped while others took its place has the calls of its
// clients in its sockets when it runs again. It revives no claim and grants nothing.
func TestAPausedLeaderThatComesBackGrantsAndRevivesNothing(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	clusterClient(t, clusterTTL, c.Addrs()...) // it makes the bucket
	old := c.Leader(testStream)
	e := clusterEngine(t, c.Addrs(old)...)
	s := clusterSession(t, e, clusterTTL)
	rival := clusterClient(t, longTTL, c.Addrs(c.Except(old)...)...)
	expired, left := queues("expired"), queues("left")
	mustHold(t, s, expired)
	c.Members[old].Pause()
	next := mustLock(t, rival, "expired")
	other := mustLock(t, rival, "left")
	ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for range 4 { // as often as they are sent in this time
		calls.Go(func() {
			out := make([]driver.Standing, 1)
			for err := error(driver.ErrUnreachable); errors.Is(err, driver.ErrUnreachable); {
				if err = s.Beat(ctx, []driver.Claim{expired}, out); err == nil && !out[0].Gone {
					t.Errorf("Beat of a claim that has expired: %+v, and token %d holds", out[0], next.Token())
				}
			}
		})
	}
	calls.Go(func() {
		for err := error(driver.ErrUnreachable); errors.Is(err, driver.ErrUnreachable); {
			var st driver.Standing
			if st, err = s.Enter(ctx, left); err == nil && st.Held {
				t.Errorf("Enter: %+v, and token %d holds", st, other.Token())
			}
		}
	})
	time.Sleep(time.Second) // so that calls of all kinds are in its sockets; that is all it is for
	c.Members[old].Resume()
	calls.Wait()
	if ctx.Err() != nil {
		t.Errorf("no answer for %v", clusterTimeout)
	}
	for _, l := range []*pawl.Lease{next, other} {
		if err := l.Confirm(t.Context()); err != nil {
			t.Errorf("a lease of %v: %v", longTTL, err)
		}
	}
}

// The first calls of several engines make one bucket, and none waits for an answer that
// does not come.
func TestEnginesThatMakeTheBucketTogetherAllFindIt(t *testing.T) {
	t.Parallel()
	c, _ := cluster(t)
	var all sync.WaitGroup
	for range 8 {
		e := clusterEngine(t, c.Addrs()...)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
			defer cancel()
			s, err := e.Open(ctx, driver.SessionOptions{ID: claimID(), TTL: longTTL})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if st, err := s.Enter(ctx, queues("name/"+claimID())); err != nil || !st.Held {
				t.Errorf("Enter of a free name: %+v, %v", st, err)
			}
		})
	}
	all.Wait()
}
