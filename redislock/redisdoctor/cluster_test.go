package redisdoctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// cleanCluster fails on every finding that is not ok, but that the masters have no replicas.
func cleanCluster(t *testing.T, store string) []doctor.Finding {
	t.Helper()
	found := doctortest.Examine(t, store)
	doctortest.Clean(t, found, "replicas")
	return found
}

// Nobody takes over from a master without replicas.
func TestAMasterOfAClusterWithoutReplicasIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, append(slices.Clone(durable), "--cluster-require-full-coverage", "no")...)
	store := "redis-cluster://" + strings.Join(c.Addrs(), ",")
	addr := c.Nodes[1].Addr()
	alone := want{"replicas", addr, doctor.Warning, "0 of 0 online, wait=0", "No server takes over", "redis-cli --cluster add-node HOST:6379 " + addr + " --cluster-slave --cluster-master-id "}
	f := see(t, doctortest.Examine(t, store), alone)
	before := doctortest.Examine(t, store+"?wait=1")
	see(t, before, want{"replicas", addr, doctor.Broken, "0 of 0 online, wait=1", "and fails", alone.mend})
	added := testserver.RedisNode(t, durable...)
	shell(t, strings.Replace(f.Mend, "HOST:6379", added.Addr(), 1))
	doctortest.Eventually(t, "a replica", func() bool {
		return doctortest.Find(t, doctortest.Examine(t, store+"?wait=1"), "replicas", addr).Level == doctor.OK
	})
	for _, n := range c.Nodes { // one that has not heard of it when its master dies may never do
		node := newConsole(t, n.Addr())
		doctortest.Eventually(t, "known to all", func() bool {
			return slices.ContainsFunc(strings.Split(node.do("CLUSTER", "NODES"), "\n"), func(line string) bool {
				return strings.Contains(line, added.Addr()) && strings.Contains(line, "slave")
			})
		})
	}
	doctortest.Mended(t, before, doctortest.Examine(t, store+"?wait=1"), "replicas", addr, "min-replicas-to-write") // which now can be asked for

	replica := newConsole(t, added.Addr())
	replica.do("CONFIG", "SET", "cluster-replica-no-failover", "yes") // it waits for an operator
	c.Nodes[1].Kill()
	takeOver := fmt.Sprintf("-p %d CLUSTER FAILOVER FORCE", added.Port())
	before = failed(t, store, addr, takeOver) // before, the other masters may not know the replica yet, or whether it is well
	shell(t, see(t, before, want{"nodes", addr, doctor.Broken, "a master has failed", "or a replica takes over", takeOver}).Mend)
	doctortest.Eventually(t, "taken over", func() bool { return strings.Contains(replica.do("INFO", "replication"), "role:master") })
	c.Nodes[1].Restart()
	whole(t, store)
	doctortest.Mended(t, before, doctortest.Examine(t, store), "nodes", addr, "replicas", "min-replicas-to-write")
}

// failed waits until a master counts as failed, with this mend for all who say so.
func failed(t *testing.T, store, addr, mend string) (found []doctor.Finding) {
	t.Helper()
	doctortest.Eventually(t, "failed", func() bool {
		found = doctortest.Examine(t, store)
		says := false
		for _, f := range found {
			if f.Check == "nodes" && f.Node == addr {
				if says = f.Found == "a master has failed" && strings.Contains(f.Mend, mend); !says {
					return false
				}
			}
		}
		return says
	})
	return found
}

// whole waits until no node counts as failed.
func whole(t *testing.T, store string) {
	t.Helper()
	doctortest.Eventually(t, "whole", func() bool {
		return doctortest.Find(t, doctortest.Examine(t, store), "nodes", "").Level == doctor.OK
	})
}

func TestAClusterThatIsSetUpWrongIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, append(slices.Clone(durable), "--cluster-require-full-coverage", "no")...)
	store := "redis-cluster://" + strings.Join(c.Addrs(), ",")
	found := cleanCluster(t, store)
	for _, n := range c.Nodes {
		for _, check := range []string{"eviction policy", "persistence", "rights", "clock"} {
			doctortest.Find(t, found, check, n.Addr())
		}
	}
	first, third := newConsole(t, c.Nodes[0].Addr()), newConsole(t, c.Nodes[2].Addr())
	first.do("CONFIG", "SET", "cluster-require-full-coverage", "yes")
	first.mend(see(t, doctortest.Examine(t, store), want{"cluster-require-full-coverage", "", doctor.Warning, "is yes", "all others are refused", "CONFIG SET cluster-require-full-coverage no"}), store)
	third.do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	third.mend(see(t, doctortest.Examine(t, store), want{"eviction policy", c.Nodes[2].Addr(), doctor.Broken, "allkeys-lru", "pawl refuses", "noeviction"}), store)
	for right, level := range map[string]doctor.Level{
		"spublish": doctor.Warning, "ssubscribe": doctor.Broken, "sunsubscribe": doctor.Warning,
		"cluster|slots": doctor.Broken, "cluster|shards": doctor.Broken, "asking": doctor.Broken, "info": doctor.Broken,
	} {
		login := strings.Replace(store, "://", "://app:secret@", 1)
		for _, n := range c.Nodes {
			newConsole(t, n.Addr()).do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-"+right)
		}
		see(t, doctortest.Examine(t, login), want{check: "rights", level: level, found: "user app lacks +" + right, mend: "+" + right})
	}
	slot := c.Slot("{x}")
	to := c.Nodes[0]
	if c.Owner(slot) == to {
		to = c.Nodes[1]
	}
	from := c.Owner(slot)
	newConsole(t, from.Addr()).do("SET", "{x}held", "by me", "PX", "3600000")
	c.BeginMove(slot, to)
	moving := "redis-cluster://" + from.Addr() // a node tells only of its own moves
	before := doctortest.Examine(t, moving)
	shell(t, see(t, before, want{"moving slots", "", doctor.Warning, fmt.Sprintf("slot %d is being moved", slot), "wait for the end", "--cluster fix"}).Mend)
	doctortest.Mended(t, before, doctortest.Examine(t, moving), "moving slots", from.Addr())
	if held := newConsole(t, to.Addr()).do("GET", "{x}held"); held != "by me" {
		t.Errorf("the mend moved %q", held)
	}
	cleanCluster(t, store)
	first.do("CLUSTER", "DELSLOTS", "0", "1", "2")
	before = doctortest.Examine(t, store)
	shell(t, "yes yes | "+see(t, before, want{"slots", "", doctor.Broken, "3 of 16384 slots have no master", "cannot be taken", "redis-cli --cluster fix "}).Mend)
	c.AwaitOK()
	doctortest.Mended(t, before, doctortest.Examine(t, store), "slots", "")
}

func TestANodeOfAClusterThatIsAwayIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, append(slices.Clone(durable), "--cluster-require-full-coverage", "no")...)
	store := "redis-cluster://" + strings.Join(c.Addrs(), ",")
	gone := c.Nodes[0].Addr()
	c.Nodes[0].Kill()
	found := doctortest.Examine(t, store)
	see(t, found, want{"server", gone, doctor.Warning, "unreachable", "other hosts of the URL", "PING"})
	before := failed(t, store, gone, "")
	see(t, before, want{"nodes", gone, doctor.Broken, "a master has failed", "until it is back", "PING # start it"})
	c.Nodes[0].Restart()
	whole(t, store)
	doctortest.Mended(t, before, doctortest.Examine(t, store), "nodes", gone, "replicas")
}
