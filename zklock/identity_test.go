package zklock

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// reaping returns a server that removes empty containers almost at once. With
// PAWL_ZK_REAPER=default it does so as servers do that were told nothing: within a
// minute or two.
func reaping(t *testing.T) *testserver.Server {
	t.Helper()
	if os.Getenv("PAWL_ZK_REAPER") == "default" {
		return testserver.ZooKeeper(t)
	}
	return testserver.ZooKeeper(t, "-Dznode.container.checkIntervalMs=100")
}

// reaped waits until the server has removed the container of a name. It beats for
// the sessions, not for their claims: as a client whose beats are lost.
func reaped(t *testing.T, e *Engine, name string, alive ...*session) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		for _, s := range alive {
			if err := persist(func() error { return s.Beat(t.Context(), nil, nil) }); err != nil {
				t.Fatalf("Beat: %v", err)
			}
		}
		var there bool
		err := e.main.Call(t.Context(), func(c *zk.Conn) (err error) {
			there, _, err = c.Exists(e.linePath(name))
			return err
		})
		if err == nil && !there {
			return
		}
		if time.Since(begun) > 5*patience {
			t.Fatalf("the container of %q is still there: %v", name, err)
		}
	}
}

// The order of events: a Leave is carried out but its answer is lost; the server
// removes the empty container, whose sequence numbers begin again; another claim
// gets the same number; the Leave is repeated.
func TestARepeatedLeaveEndsNoOtherClaimAfterTheContainerWasReaped(t *testing.T) {
	t.Parallel()
	server := reaping(t)
	p := faultproxy.New(t, server.Addr())
	cut, plain := connect(t, []string{p.Addr()}), connect(t, []string{server.Addr()})
	t.Cleanup(p.Heal)
	ended := 0
	const rounds = 4
	for range rounds {
		a, b := open(t, cut, 30*time.Second), open(t, plain, 30*time.Second)
		c, d := mutex(), mutex()
		hold(t, a, c)
		p.SwallowReplies(1, faultproxy.Matching(asks(opDelete)), faultproxy.ThenCut())
		if err := a.Leave(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("Leave whose reply was lost: %v", err)
		}
		reaped(t, plain, "job", a, b)
		hold(t, b, d)
		if err := persist(func() error { return a.Leave(t.Context(), c) }); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave again: %v, not ErrGone", err)
		}
		if st := enter(t, b, tries(mutex())); st.Held {
			ended++
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("PAWL_ZK_REAPER") == "default" {
			break // a round takes a minute or two
		}
		reaped(t, plain, "job")
	}
	if ended > 0 {
		t.Errorf("the next holder was ended by the repeated Leave: a third held beside it, %d of %d times", ended, rounds)
	}
}

// The order of events: a holder is evicted, the server removes the empty container,
// another holds in a new one and gets the same number; the first beats.
func TestAnEvictedHolderIsToldAlthoughItsContainerWasReaped(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{reaping(t).Addr()})
	both := 0
	const rounds = 12
	for range rounds {
		a, b := open(t, e, 30*time.Second), open(t, e, 30*time.Second)
		c, d := mutex(), mutex()
		hold(t, a, c)
		out := make([]driver.Standing, 1)
		if err := a.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
			t.Fatalf("Beat: %+v, %v", out[0], err)
		}
		if err := e.Evict(t.Context(), listed(t, e, "job")[0]); err != nil {
			t.Fatal(err)
		}
		reaped(t, e, "job", a, b)
		hold(t, b, d)
		if err := a.Beat(t.Context(), []driver.Claim{c}, out); err != nil {
			t.Fatal(err)
		}
		if !out[0].Gone {
			both++
		}
		for _, s := range []*session{a, b} {
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if os.Getenv("PAWL_ZK_REAPER") == "default" {
			break
		}
		reaped(t, e, "job")
	}
	if both > 0 {
		t.Errorf("an evicted holder went on holding beside the next, %d of %d times", both, rounds)
	}
}
