package redisdoctor_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAServerWithGoodSettingsIsClean(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	found := clean(t, "redis://"+s.Addr()+"?ttl=20s")
	for _, check := range []string{
		"server", "role", "version", "eviction policy", "memory left", "persistence", "disk writes", "replicas",
		"min-replicas-to-write", "keys", "clients", "idle timeout", "scripts", "rights", "clock", "round trip",
	} {
		doctortest.Find(t, found, check, "")
	}
}

func TestAValkeyWithGoodSettingsIsClean(t *testing.T) {
	t.Parallel()
	s := testserver.Valkey(t, durable...)
	f := doctortest.Find(t, clean(t, "redis://"+s.Addr()), "version", "")
	if !strings.HasPrefix(f.Found, "Valkey ") {
		t.Errorf("%+v", f)
	}
	sentinel := testserver.ValkeySentinel(t, s)
	see(t, doctortest.Examine(t, "redis://"+sentinel.Addr()), want{"server", "", doctor.Broken, "is a sentinel", "keeps no keys", "-s 'redis-sentinel://" + sentinel.Addr()})
}

// Each case is a server that is set up wrong. What the finding says to do is done, and
// the check is ok then.
func TestAServerThatIsSetUpWrongIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		set   [][]string // commands beforehand
		query string
		want
		stays doctor.Level // after the mend; OK unless said otherwise
	}{
		"eviction": {
			args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			want: want{"eviction policy", "", doctor.Broken, "maxmemory-policy is allkeys-lru", "pawl refuses", "CONFIG SET maxmemory-policy noeviction"},
		},
		"eviction of keys that expire, which the URL accepts": {
			args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, query: "?allow-eviction=yes",
			want: want{"eviction policy", "", doctor.Warning, "volatile-ttl, and the URL accepts that", "may evict a lock that is held", "CONFIG SET maxmemory-policy noeviction"},
		},
		"memory nearly full": {
			args: []string{"--maxmemory", "70mb"}, set: [][]string{{"SETRANGE", "large", "61000000", "x"}},
			want: want{"memory left", "", doctor.Warning, "of maxmemory 70.0 MB are used", "refuses new locks", "CONFIG SET maxmemory "},
		},
		"memory full": {
			set:  [][]string{{"SETRANGE", "large", "20000000", "x"}, {"CONFIG", "SET", "maxmemory", "10mb"}},
			want: want{"memory left", "", doctor.Broken, "of maxmemory 10.0 MB are used", "refuses new locks", "CONFIG SET maxmemory "},
		},
		"no persistence": {
			args: []string{"--appendonly", "no"},
			want: want{"persistence", "", doctor.Warning, "nothing is written to disk", "forgets all locks", "CONFIG SET appendonly yes appendfsync always"},
		},
		"snapshots only": {
			args: []string{"--appendonly", "no", "--save", "3600 1"},
			want: want{"persistence", "", doctor.Warning, "snapshots only (appendonly no, save 3600 1)", "its last moments", "CONFIG SET appendonly yes appendfsync always"},
		},
		"synced once a second": {
			args: []string{"--appendfsync", "everysec"},
			want: want{"persistence", "", doctor.Warning, "appendfsync everysec", "its last moments", "CONFIG SET appendfsync always"},
		},
		"not synced during a rewrite": {
			args: []string{"--no-appendfsync-on-rewrite", "yes"},
			want: want{"persistence", "", doctor.Warning, "no-appendfsync-on-rewrite yes", "nothing is synced", "CONFIG SET no-appendfsync-on-rewrite no"},
		},
		"more replicas required than there are": {
			args: []string{"--min-replicas-to-write", "2"},
			want: want{"min-replicas-to-write", "", doctor.Broken, "is 2, and 0 replicas are there", "NOREPLICAS", "CONFIG SET min-replicas-to-write 0"},
		},
		"wait without replicas": {
			query: "?wait=1",
			want:  want{"replicas", "", doctor.Broken, "0 of 0 online, wait=1", "and fails", "wait=0"},
		},
		"connections that are closed soon": {
			args: []string{"--timeout", "5"},
			want: want{"idle timeout", "", doctor.Warning, "timeout is 5s", "closes connections", "CONFIG SET timeout 0"},
		},
		"keys of others": {
			args: []string{"--enable-debug-command", "yes", "--appendonly", "no"}, set: [][]string{{"DEBUG", "POPULATE", "500000", "other", "1"}},
			want: want{"keys", "", doctor.Warning, "500000 in database 0", "scan all keys", "/1'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t, append(slices.Clone(durable), test.args...)...)
			at := newConsole(t, s.Addr())
			for _, words := range test.set {
				at.do(words...)
			}
			store := "redis://" + s.Addr() + test.query
			if test.stays == doctor.OK {
				at.mended(store, test.want)
				return
			}
			f := see(t, doctortest.Examine(t, store), test.want)
			again := doctortest.Find(t, doctortest.Examine(t, at.mend(f, store)), test.check, "")
			if again.Level != test.stays {
				t.Errorf("after %q: %+v", f.Mend, again)
			}
		})
	}
}

func TestAFailedSaveIsFound(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, append(slices.Clone(durable), "--save", "3600 1000000")...)
	at, blocked := newConsole(t, s.Addr()), filepath.Join(s.Dir(), "dump.rdb")
	if err := os.Mkdir(blocked, 0o700); err != nil { // no file can be renamed to that
		t.Fatal(err)
	}
	at.do("BGSAVE")
	store := "redis://" + s.Addr()
	doctortest.Eventually(t, "failed", func() bool { return strings.Contains(at.do("INFO", "persistence"), "rdb_last_bgsave_status:err") })
	f := see(t, doctortest.Examine(t, store), want{"disk writes", "", doctor.Broken, "the last background save failed in " + s.Dir(), "MISCONF", "BGSAVE"})
	at.do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	see(t, doctortest.Examine(t, store), want{"disk writes", "", doctor.Warning, "the last background save failed", "older snapshot", "BGSAVE"})
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	at.mend(f, store)
	doctortest.Eventually(t, "saved", func() bool {
		return doctortest.Find(t, doctortest.Examine(t, store), "disk writes", "").Level == doctor.OK
	})
}

func TestAReplicaAskedAsAMasterIsFound(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	r := testserver.RedisReplica(t, master.Addr(), durable...)
	found := doctortest.Examine(t, "redis://"+r.Addr())
	f := see(t, found, want{"role", "", doctor.Broken, "is a replica of " + master.Addr(), "refuses writes", "-s 'redis://" + master.Addr() + "'"})
	if last := found[len(found)-1]; last != f {
		t.Errorf("the replica was examined further: %+v", last)
	}
	if f := doctortest.Find(t, doctortest.Examine(t, newConsole(t, r.Addr()).mend(f, "")), "role", ""); f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
}

func TestReplicasThatGrantsDoNotWaitForAreFound(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	testserver.RedisReplica(t, master.Addr(), durable...)
	at, store := newConsole(t, master.Addr()), "redis://"+master.Addr()
	doctortest.Eventually(t, "online", func() bool { return strings.Contains(at.do("INFO", "replication"), "state=online") })
	found := doctortest.Examine(t, store)
	waits := see(t, found, want{"replicas", "", doctor.Warning, "1 of 1 online, wait=0", "frees a lock that is held", "?wait=1'"})
	least := see(t, found, want{"min-replicas-to-write", "", doctor.Warning, "is 0, with 1 replicas", "next master grants too", "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 3"})
	more := see(t, doctortest.Examine(t, store+"?wait=2"), want{"replicas", "", doctor.Broken, "1 of 1 online, wait=2", "and fails", "?wait=1'"})
	if at.mend(more, store) != at.mend(waits, store) {
		t.Errorf("%q, %q", more.Mend, waits.Mend)
	}
	at.mend(least, store)
	clean(t, at.mend(waits, store))
}

// The server counts replicas only with a maximal lag.
func TestAMinimumOfReplicasWithoutAMaximalLagIsNone(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, append(slices.Clone(durable), "--min-replicas-to-write", "1", "--min-replicas-max-lag", "0")...)
	at, store := newConsole(t, s.Addr()), "redis://"+s.Addr()
	at.do("SET", "other", "value") // it is not refused
	clean(t, store)
	testserver.RedisReplica(t, s.Addr(), durable...)
	doctortest.Eventually(t, "online", func() bool { return strings.Contains(at.do("INFO", "replication"), "state=online") })
	f := see(t, doctortest.Examine(t, store), want{"min-replicas-to-write", "", doctor.Warning, "is 1, without effect: min-replicas-max-lag is 0", "next master grants too", "CONFIG SET min-replicas-max-lag 3"})
	at.mend(f, store)
	clean(t, store+"?wait=1")
}

// A master that is cut off grants and renews for as long as it believes in its replicas.
func TestALagOfReplicasIsBelowTheTTL(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, append(slices.Clone(durable), "--min-replicas-to-write", "1")...) // its lag is 10 without a setting
	testserver.RedisReplica(t, s.Addr(), durable...)
	at, store := newConsole(t, s.Addr()), "redis://"+s.Addr()+"?wait=1"
	doctortest.Eventually(t, "online", func() bool { return strings.Contains(at.do("INFO", "replication"), "state=online") })
	clean(t, store+"&ttl=30s")
	at.mended(store, want{"min-replicas-to-write", "", doctor.Warning, "min-replicas-max-lag is 10 s, and leases last 10s", "and the next master grants the same locks", "CONFIG SET min-replicas-max-lag 3"})
	at.mended(store+"&ttl=3s", want{"min-replicas-to-write", "", doctor.Warning, "is 3 s, and leases last 3s", "and renewing for that long", "CONFIG SET min-replicas-max-lag 1"})
}

// With a replica that has fallen silent, the setting would stop all writes.
func TestAMinimumOfReplicasIsNotAskedForWhileNoneIsThere(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	r := testserver.RedisReplica(t, s.Addr(), durable...)
	at, store := newConsole(t, s.Addr()), "redis://"+s.Addr()+"?wait=1"
	doctortest.Eventually(t, "online", func() bool { return strings.Contains(at.do("INFO", "replication"), "state=online") })
	r.Pause()
	doctortest.Eventually(t, "silent", func() bool {
		return strings.Contains(doctortest.Find(t, doctortest.Examine(t, store), "min-replicas-to-write", "").Found, "0 of 1 replicas are online")
	})
	f := see(t, doctortest.Examine(t, store), want{"min-replicas-to-write", "", doctor.Warning, "is 0 with min-replicas-max-lag 10", "would stop all writes", "INFO replication"})
	r.Resume()
	shell(t, f.Mend)
	at.do("SET", "other", "value")
}

func TestANodeOfAClusterAskedAsASingleServerIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t)
	addr := c.Nodes[1].Addr()
	f := see(t, doctortest.Examine(t, "redis://"+addr), want{"server", "", doctor.Broken, addr + " is a node of a cluster", "refused here", "-s 'redis-cluster://" + addr + "'"})
	if f := doctortest.Find(t, doctortest.Examine(t, newConsole(t, addr).mend(f, "")), "slots", ""); f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
}

func TestASingleServerAskedAsAClusterOrAsASentinelIsFound(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	f := see(t, doctortest.Examine(t, "redis-cluster://"+s.Addr()), want{"server", "", doctor.Broken, "is not a node of a cluster", "cannot find", "-s 'redis://" + s.Addr() + "'"})
	clean(t, newConsole(t, s.Addr()).mend(f, ""))
	see(t, doctortest.Examine(t, "redis-sentinel://"+s.Addr()+"/name"), want{"sentinel", s.Addr(), doctor.Broken, "SENTINEL", "no sentinel", "SENTINEL MASTERS"})
}

func TestAClockThatIsOffIsFound(t *testing.T) {
	t.Parallel()
	c := testserver.NewClock(t)
	s := testserver.RedisOn(t, c, durable...)
	store := "redis://" + s.Addr()
	c.Step(time.Hour)
	before := doctortest.Examine(t, store)
	see(t, before, want{"clock", "", doctor.Warning, "ahead of ours", "expires locks that are held", "chronyc makestep"})
	c.Step(-2 * time.Hour)
	see(t, doctortest.Examine(t, store), want{"clock", "", doctor.Warning, "behind ours", "expires locks that are held", "chronyc makestep"})
	c.Step(time.Hour) // as makestep does
	doctortest.Mended(t, before, clean(t, store), "clock", "")
}

func TestASlowLinkIsFound(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	p := faultproxy.New(t, s.Addr())
	p.Delay(faultproxy.ToServer, 150*time.Millisecond)
	found := doctortest.Examine(t, "redis://"+p.Addr())
	if f := doctortest.Find(t, found, "round trip", ""); f.Level == doctor.OK || !strings.Contains(f.Mend, "--latency") {
		t.Errorf("%+v", f)
	}
	if f := doctortest.Find(t, found, "clock", ""); f.Level != doctor.OK {
		t.Errorf("half a slow round trip passes for a wrong clock: %+v", f)
	}
}

func TestAServerWithLittleRoomForConnectionsIsFound(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, append(slices.Clone(durable), "--maxclients", "12")...)
	for range 8 {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	at, store := newConsole(t, s.Addr()), "redis://"+s.Addr()
	doctortest.Eventually(t, "connected", func() bool { return !strings.Contains(at.do("INFO", "clients"), "connected_clients:1\r") })
	f := see(t, doctortest.Examine(t, store), want{"clients", "", doctor.Warning, "of at most 12", "refuses connections", "CONFIG SET maxclients 10000"})
	at.mend(f, store)
	clean(t, store)
}

func TestAServerWithoutScriptsIsFound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(file, []byte("rename-command eval \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testserver.Redis(t, append(slices.Clone(durable), "--include", file)...)
	before := doctortest.Examine(t, "redis://"+s.Addr())
	f := see(t, before, want{"scripts", "", doctor.Broken, "EVAL is refused", "No lock can be taken", "and restart the server"})
	shell(t, "cd "+filepath.Dir(file)+" && "+f.Mend)
	s.Restart()
	doctortest.Mended(t, before, clean(t, "redis://"+s.Addr()), f.Check, "")
	v := testserver.Valkey(t, append(slices.Clone(durable), "--rename-command", "EVAL", "")...)
	see(t, doctortest.Examine(t, "redis://"+v.Addr()), want{"scripts", "", doctor.Warning, "EVAL is refused", "no line", "rename-command "})
	see(t, doctortest.Examine(t, "redis://"+v.Addr()+"?scripts=always"), want{"scripts", "", doctor.Broken, "EVAL is refused", "No lock can be taken", "rename-command "})
}
