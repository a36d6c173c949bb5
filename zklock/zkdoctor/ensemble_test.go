package zkdoctor

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAStandaloneServerThatDoesNotWaitForItsDiskIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeperNode(t, 1, longSessions)
	awaitServing(t, server)
	stillHeld := doctortest.Held(t, storeOf(server.Addr()))
	found := doctortest.Examine(t, storeOf(server.Addr()))
	f := doctortest.Expect(t, found, "servers", "", doctor.Warning, "standalone", "no lock can be taken",
		"initLimit=10, syncLimit=5", "its own number in dataDir/myid", "start this one and one other, and the third when they serve")
	doctortest.Expect(t, found, "forcesync", server.Addr(), doctor.Warning, "does not wait for its disk", "loses power", "forceSync=yes")
	doctortest.CleanButTimes(t, found, "servers", "forcesync")

	lines := []string{longSessions, "initLimit=50", "syncLimit=10", serverLine(t, f, 1), serverLine(t, f, 2), serverLine(t, f, 3)} // ticks are short here
	configure(t, server, lines...)
	second := testserver.ZooKeeperNode(t, 2, lines...)
	server.Restart()
	awaitServing(t, server, second)
	third := testserver.ZooKeeperNode(t, 3, lines...)
	awaitServing(t, third)
	var after []doctor.Finding
	doctortest.Eventually(t, "in step", func() bool {
		after = doctortest.Examine(t, storeOf(server.Addr(), second.Addr(), third.Addr()))
		return doctortest.Find(t, after, "followers", "").Level == doctor.OK
	})
	doctortest.Mended(t, found, after, "servers", "", "forcesync")
	stillHeld()
}

func TestServersThatAreDownAreFound(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeepers(t, 3, nil, "-Dreadonlymode.enabled=true", longSessions)
	store := storeOf(e.Addrs()...)
	stillHeld := doctortest.Held(t, store)
	down := (e.Leader() + 1) % 3 // a follower
	e.Nodes[down].Kill()
	rest := []int{(down + 1) % 3, (down + 2) % 3}
	e.Await(rest...)
	e.Leader(rest...)
	found := doctortest.Examine(t, store)
	one := found
	doctortest.Expect(t, found, "state", e.Addrs()[down], doctor.Warning, "does not answer", "zkServer.sh start")
	doctortest.Expect(t, found, "followers", "", doctor.Warning, "1 of 2 are in step", "zkServer.sh restart")
	doctortest.Expect(t, found, "majority", "", doctor.OK)
	doctortest.CleanButTimes(t, found, "state", "followers", "forcesync")

	e.Nodes[rest[0]].Pause() // stuck, not gone
	last := e.Addrs()[rest[1]]
	deadline := time.Now().Add(2 * time.Minute) // an examination waits for the stuck one
	for {                                       // poll: it gives its leader up first
		found = doctortest.Examine(t, store)
		if doctor.Worst(found) == doctor.Broken && strings.Contains(doctortest.Text(found...), "read-only") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last server does not become read-only:\n%s", doctortest.Text(found...))
		}
	}
	doctortest.Expect(t, found, "state", last, doctor.Warning, "read-only", "refuses locks")
	doctortest.Expect(t, found, "state", e.Addrs()[rest[0]], doctor.Warning, "does not answer", "zkServer.sh restart")
	doctortest.Expect(t, found, "majority", "", doctor.Broken, "Nothing can be locked", "zkServer.sh start")
	for _, i := range []int{rest[0], down} {
		zkServer(t, doctortest.Find(t, found, "state", e.Addrs()[i]), e.Nodes[i])
	}
	e.Await()
	var after []doctor.Finding
	doctortest.Eventually(t, "in step", func() bool {
		after = doctortest.Examine(t, store)
		return doctortest.Find(t, after, "followers", "").Level == doctor.OK
	})
	doctortest.Mended(t, one, after, "followers", "", "forcesync")
	for _, check := range []string{"majority", "servers", "followers", "session limits", "rights"} { // of which there is one mend
		doctortest.Mended(t, found, after, check, "", "forcesync")
	}
	for _, node := range e.Addrs() {
		doctortest.Mended(t, found, after, "state", node, "forcesync")
	}
	stillHeld()
}

func TestAnEvenNumberOfServersAndAURLWithOneOfThemAreWarnedOf(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeepers(t, 2, nil, "forceSync=yes", longSessions)
	stillHeld := doctortest.Held(t, storeOf(e.Addrs()...))
	lead := e.Addrs()[e.Leader()]
	found := doctortest.Examine(t, storeOf(lead))
	f := doctortest.Expect(t, found, "servers", "", doctor.Warning, "2 that vote", "No more of them may fail than of 1", "server.3=", "3 in its dataDir/myid", "restart the others one by one, then start it")
	urlOf := doctortest.Expect(t, found, "endpoints", "", doctor.Warning, "1 of 2 servers").Mend
	doctortest.CleanButTimes(t, found, "servers", "endpoints")

	lines := []string{"forceSync=yes", longSessions, "initLimit=50", "syncLimit=10", serverLine(t, f, 3)}
	for _, node := range e.Nodes {
		configure(t, node, lines[len(lines)-1])
		node.Restart()
		e.Await()
	}
	third := testserver.ZooKeeperNode(t, 3, append(lines, serverLines(t, e.Nodes[0])[:2]...)...)
	awaitServing(t, third)
	url := strings.NewReplacer("PAWL_STORE=", "", lead, e.Addrs()[0], "HOST2:2181", e.Addrs()[1], "HOST3:2181", third.Addr()).Replace(urlOf)
	var after []doctor.Finding
	doctortest.Eventually(t, "in step", func() bool {
		after = doctortest.Examine(t, url)
		return doctortest.Find(t, after, "followers", "").Level == doctor.OK
	})
	doctortest.Mended(t, found, after, "servers", "")
	doctortest.Mended(t, found, after, "endpoints", "")
	stillHeld()
}

func TestTwoEnsemblesInOneURLAreFound(t *testing.T) {
	t.Parallel()
	one, two := testserver.ZooKeeper(t), testserver.ZooKeeper(t)
	f := doctortest.Expect(t, doctortest.Examine(t, storeOf(one.Addr(), two.Addr())), "ensemble", "", doctor.Broken, "2 of 2 servers are standalone", "two clients can hold")
	doctortest.Expect(t, doctortest.Examine(t, strings.TrimPrefix(f.Mend, "PAWL_STORE=")), "ensemble", "", doctor.OK)
	doctortest.Applied("ensemble")
	locks, err := pawl.Open(t.Context(), storeOf(two.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.Mutex("held").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	f = doctortest.Expect(t, doctortest.Examine(t, storeOf(one.Addr(), two.Addr())), "ensemble", "", doctor.Broken)
	if want := "PAWL_STORE=" + storeOf(two.Addr()); f.Mend != want { // the other one has no locks
		t.Errorf("%s, want %s", f.Mend, want)
	}
}

// Two followers of different leaders can only be told by their nodes.
func TestServersWithDifferentNodesAreTold(t *testing.T) {
	t.Parallel()
	one, two := testserver.ZooKeeper(t), testserver.ZooKeeper(t)
	for _, path := range []string{"/other", "/team"} {
		if _, err := dialTo(t, two.Addr()).Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		e := &ensemble{root: "/team"}
		e.settings.Servers = []string{one.Addr(), two.Addr()}
		e.ask(t.Context())
		if text, unknown := e.differ(t.Context(), e.serving()); !strings.Contains(text, "have different nodes") || unknown != "" {
			t.Errorf("with %s on one: %q %q", path, text, unknown)
		}
		same := []*server{e.servers[1], e.servers[1]}
		if text, unknown := e.differ(t.Context(), same); text+unknown != "" {
			t.Errorf("the same server differs from itself: %s%s", text, unknown)
		}
		e.close()
	}
}
