package redislock_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

// waitingClients open a client whose grants and renewals one replica confirms.
var waitingClients = map[string]func(t *testing.T, addrs []string, cluster bool) *pawl.Client{
	"rueidis": func(t *testing.T, addrs []string, cluster bool) *pawl.Client {
		scheme := "redis"
		if cluster {
			scheme = "redis-cluster"
		}
		return open(t, scheme+"://"+strings.Join(addrs, ",")+"?wait=1&wait-timeout=3s", pawl.WithTTL(steady))
	},
	"go-redis": func(t *testing.T, addrs []string, cluster bool) *pawl.Client {
		var c goredisclient.UniversalClient = goredisclient.NewClient(&goredisclient.Options{Addr: addrs[0]})
		if cluster {
			c = goredisclient.NewClusterClient(&goredisclient.ClusterOptions{Addrs: addrs})
		}
		t.Cleanup(func() { _ = c.Close() })
		p := pawl.New(goredis.New(c, redislock.WithWait(1, 3*time.Second)), pawl.WithTTL(steady))
		t.Cleanup(func() { _ = p.Close() })
		return p
	},
}

// A master and its client are cut off from the replica, which has the grant, and which is
// promoted. Renewals that the replica does not have must not prolong the lease: it ends
// before another client holds the name at the new master.
func TestAMasterThatIsCutOffFromItsReplicaRenewsNothing(t *testing.T) {
	t.Parallel()
	for library, client := range waitingClients {
		for _, kind := range []string{"mutex", "reader"} {
			t.Run(library+" "+kind, func(t *testing.T) {
				t.Parallel()
				master := testserver.Redis(t)
				link := faultproxy.New(t, master.Addr())
				replica := testserver.RedisReplica(t, link.Addr())
				rw := client(t, []string{master.Addr()}, false).RWMutex("name")
				l, err := rw.Lock(t.Context())
				if kind == "reader" {
					unlock(t, l)
					l, err = rw.RLock(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				outlast(steady)
				if err := l.Confirm(t.Context()); err != nil {
					t.Fatalf("with its replica: %v", err)
				}
				link.BlackHole(faultproxy.Both)
				newConsole(t, replica.Addr()).do("REPLICAOF", "NO", "ONE")
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := l.Confirm(ctx); err == nil {
					t.Error("a replica that does not answer confirmed the lease")
				}
				rival := open(t, "redis://"+replica.Addr(), pawl.WithTTL(steady))
				next, err := rival.RWMutex("name").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if l.Err() == nil {
					t.Errorf("two holders: the deadline of the first is in %v", time.Until(l.Deadline()))
				}
				unlock(t, next)
				link.Heal()
			})
		}
	}
}

// Renewals that replicas confirm keep many leases, and ask for that confirmation once for
// a whole beat. Without replicas that answer, nothing is renewed.
func TestReplicasConfirmABeatAtOnce(t *testing.T) {
	t.Parallel()
	for library, client := range waitingClients {
		for _, cluster := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s cluster=%v", library, cluster), func(t *testing.T) {
				t.Parallel()
				var servers, replicas []*testserver.Server
				if cluster {
					c := testserver.RedisCluster(t)
					c.AddReplicas()
					servers, replicas = c.Nodes[:3], c.Nodes[3:]
				} else {
					servers = []*testserver.Server{testserver.Redis(t)}
					replicas = append(replicas, testserver.RedisReplica(t, servers[0].Addr()))
				}
				var addrs []string
				for _, s := range servers {
					addrs = append(addrs, s.Addr())
				}
				p := client(t, addrs, cluster)
				const leases = 60
				var all []*pawl.Lease
				for i := range leases {
					all = append(all, lock(t, p.Mutex("name "+strconv.Itoa(i))))
				}
				outlast(steady)
				beats := 0
				for i, l := range all {
					if err := l.Err(); err != nil {
						t.Fatalf("lease %d: %v", i, err)
					}
				}
				for _, s := range servers {
					waits := calls(newConsole(t, s.Addr()).do("INFO", "commandstats"), "wait")
					beats += waits
				}
				beats -= leases // each grant
				// There is one every third of the TTL, for each node.
				if most := 10 * len(servers); beats < 3 || beats > most {
					t.Errorf("%d WAITs of beats, want 3 to %d", beats, most)
				}
				for _, r := range replicas {
					r.Pause()
					t.Cleanup(r.Resume)
				}
				for _, l := range all {
					lost(t, l, 2*steady)
				}
			})
		}
	}
}

// A master of a cluster dies, and one of its two replicas takes its place: leases taken
// there since are renewed, by clients that had renewed others at the dead one.
func TestRenewalsAreConfirmedByTheMasterThatReplacedADeadOne(t *testing.T) {
	t.Parallel()
	for library, client := range waitingClients {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			stay := []string{"--cluster-migration-barrier", "9", "--cluster-require-full-coverage", "no"} // no replica goes to another master
			c := testserver.RedisCluster(t, stay...)
			master := c.Owner(c.Slot("pawl:name"))
			id := newConsole(t, master.Addr()).do("CLUSTER", "MYID")
			replicas := make([]*console, 2)
			for i := range replicas {
				replicas[i] = newConsole(t, testserver.RedisNode(t, stay...).Addr())
				replicas[i].do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(master.Port()), strconv.Itoa(master.Ports()[1]))
			}
			for _, at := range replicas {
				until(t, time.Minute, "a replica", func() bool {
					_, err := at.try("CLUSTER", "REPLICATE", id)
					return err == nil && strings.Contains(at.do("CLUSTER", "INFO"), "cluster_known_nodes:5\r")
				})
			}
			m := client(t, c.Addrs(), true).Mutex("name")
			until(t, time.Minute, "replicated", func() bool {
				return strings.Count(newConsole(t, master.Addr()).do("INFO", "replication"), "state=online") == 2
			})
			l := lock(t, m)
			outlast(steady)
			unlock(t, l)
			master.Kill()
			replicas[0].do("CLUSTER", "FAILOVER", "TAKEOVER")
			until(t, time.Minute, "replicated again", func() bool {
				return strings.Count(replicas[0].do("INFO", "replication"), "state=online") == 1
			})
			for tries := 1; ; tries++ { // the first may be lost while the client finds the new master
				l, err := m.Lock(t.Context())
				if err == nil {
					outlast(steady)
					if err = l.Err(); err == nil {
						unlock(t, l)
						return
					}
				}
				if tries == 5 {
					t.Fatalf("lease %d at the new master: %v", tries, err)
				}
			}
		})
	}
}

// calls reads how often a server ran a command.
func calls(stats, command string) int {
	_, rest, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
	digits, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(digits) // 0: never
	return n
}
