package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

const spread = 9 // names, over the masters of a cluster

// listsWithoutAMaster lists at once after the death of a master, and once more when the
// cluster has noticed it.
func listsWithoutAMaster(t *testing.T, connect Adapter) {
	s := testserver.RedisCluster(t, "--cluster-require-full-coverage", "no")
	e := connect(t, Config{Addrs: s.Addrs(), Cluster: true})
	one := session(t, e, 5*time.Minute)
	for i := range spread {
		if _, err := one.Enter(t.Context(), mutex(fmt.Sprintf("%x", i+1), fmt.Sprint("name", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := list(t.Context(), e); n != spread || err != nil {
		t.Fatalf("%d of %d claims are listed, %v", n, spread, err)
	}
	s.Nodes[0].Kill()
	at := newConsole(t, s.Nodes[1].Addr())
	noticed := func() bool { return strings.Contains(at.do("CLUSTER", "NODES"), "fail ") }
	for last, began := false, time.Now(); !last; last = noticed() {
		if n, err := list(t.Context(), e); err == nil || n == spread {
			t.Fatalf("%v after the death of a master %d of %d claims are listed, %v", time.Since(began), n, spread, err)
		} else if !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%v, not ErrUnreachable", err)
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the cluster does not notice the death of a master")
		}
		time.Sleep(100 * time.Millisecond)
	}
	for range 20 { // while the client learns what the cluster knows
		if n, err := list(t.Context(), e); err == nil {
			t.Fatalf("when the cluster knows that a master is dead, %d of %d claims are listed, and no error", n, spread)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// renewsBesideASilentNode beats claims of all masters of a cluster, of which one does not
// answer: those of the others have their answers.
func renewsBesideASilentNode(t *testing.T, connect Adapter) {
	s := testserver.RedisCluster(t, "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000")
	e := connect(t, Config{Addrs: s.Addrs(), Cluster: true})
	one := session(t, e, time.Minute)
	var live []driver.Claim
	silent := map[string]bool{}
	for i := range 10 * spread {
		c := mutex(fmt.Sprintf("%x", i+1), fmt.Sprint("name", i))
		if _, err := one.Enter(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		live = append(live, c)
		silent[c.Name] = s.Owner(s.Slot("pawl:"+c.Name)) == s.Nodes[0]
	}
	s.Nodes[0].Pause()
	t.Cleanup(s.Nodes[0].Resume)
	for range 2 { // the second time it is known that there was no answer
		out := make([]driver.Standing, len(live))
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		err := one.Beat(ctx, live, out)
		cancel()
		if err == nil {
			t.Error("a beat that a node did not answer has no error")
		}
		for i, c := range live {
			if out[i].Held == silent[c.Name] {
				t.Fatalf("%s, whose node is silent: %t, has the answer %+v", c.Name, silent[c.Name], out[i])
			}
		}
	}
}

func list(ctx context.Context, e driver.Engine) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, err = range e.List(ctx, "") {
		if err == nil {
			n++
		}
	}
	return n, err
}

// locksWithoutAMaster begins when a master is dead: what is on the others must work.
func locksWithoutAMaster(t *testing.T, connect Adapter) {
	s := testserver.RedisCluster(t, "--cluster-require-full-coverage", "no")
	var names []string
	for i := range spread {
		if name := fmt.Sprint("name", i); s.Owner(s.Slot("pawl:"+name)) != s.Nodes[0] {
			names = append(names, name)
		}
	}
	s.Nodes[0].Kill()
	c := pawl.New(connect(t, Config{Addrs: s.Addrs(), Cluster: true}), pawl.WithTTL(time.Minute))
	defer c.Close()
	locked, there := 0, 0
	for _, name := range names {
		there++
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		l, err := c.Mutex(name).Lock(ctx)
		cancel()
		if err != nil {
			t.Errorf("%s, whose master is alive: %v", name, err)
			continue
		}
		locked++
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if there == 0 || locked != there {
		t.Errorf("%d of %d names were locked", locked, there)
	}
}

// leavesConnections uses a client that lends two connections.
func leavesConnections(t *testing.T, connect Adapter) {
	e := connect(t, Config{Addrs: []string{testserver.Redis(t).Addr()}, Pool: 2})
	one := session(t, e, time.Minute)
	for i := range 50 {
		name := fmt.Sprint("name", i)
		if _, err := one.Enter(t.Context(), mutex("aa", name)); err != nil {
			t.Fatal(err)
		}
		if err := one.Leave(t.Context(), mutex("aa", name)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // connections are made in the background
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	if err := e.Borrow(ctx, 1); err != nil {
		t.Errorf("the program's own call: %v", err)
	}
}
