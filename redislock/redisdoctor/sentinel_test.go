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

// safe are the settings of a master with replicas under which no warning is due.
var safe = append(slices.Clone(durable), "--min-replicas-to-write", "1", "--min-replicas-max-lag", "3")

// sentinels starts a master with two replicas and three sentinels, and returns its URL.
func sentinels(t *testing.T) (*testserver.Sentinel, string) {
	t.Helper()
	c := testserver.RedisSentinel(t, safe...)
	c.AwaitReplicas(c.Nodes[0], 2)
	return c, fmt.Sprintf("redis-sentinel://%s/%s?wait=1", strings.Join(c.Addrs(), ","), testserver.SentinelName)
}

func TestSentinelsThatAreSetUpWrongAreFound(t *testing.T) {
	t.Parallel()
	c, store := sentinels(t)
	found := clean(t, store)
	for _, check := range []string{"master", "master state", "sentinels", "quorum", "failover", "down-after"} {
		doctortest.Find(t, found, check, "")
	}
	for _, n := range c.Nodes { // the replicas too
		doctortest.Find(t, found, "eviction policy", n.Addr())
	}
	for i, s := range c.Sentinels { // each has its own settings
		at := newConsole(t, s.Addr())
		for _, test := range []struct {
			option, value string
			want
		}{
			{"quorum", "4", want{"quorum", s.Addr(), doctor.Broken, "quorum 4 of 3 sentinels", "never replaced", "SENTINEL SET pawl quorum 2"}},
			{"quorum", "1", want{"quorum", s.Addr(), doctor.Warning, "quorum 1 of 3 sentinels", "start a failover", "SENTINEL SET pawl quorum 2"}},
			{"down-after-milliseconds", "60000", want{"down-after", s.Addr(), doctor.Warning, "down-after-milliseconds is 60000", "do not outlive", "SENTINEL SET pawl down-after-milliseconds 5000"}},
		}[i%2:] {
			at.do("SENTINEL", "SET", testserver.SentinelName, test.option, test.value)
			at.mended(store, test.want)
		}
	}
	clean(t, store)
	replica := newConsole(t, c.Nodes[2].Addr())
	replica.do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lfu")
	f := see(t, doctortest.Examine(t, store), want{"eviction policy", c.Nodes[2].Addr(), doctor.Broken, "allkeys-lfu", "pawl refuses", "noeviction"})
	replica.mend(f, store)
	for _, n := range c.Nodes { // users are not replicated
		newConsole(t, n.Addr()).do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	}
	replica.do("ACL", "SETUSER", "app", "-hset")
	login := strings.Replace(store, "://", "://app:secret@", 1)
	f = see(t, doctortest.Examine(t, login), want{"rights", c.Nodes[2].Addr(), doctor.Broken, "user app lacks +hset", "denied", "ACL SETUSER app +hset"})
	replica.mend(f, login)
	clean(t, login)
	see(t, doctortest.Examine(t, strings.Replace(store, "/pawl", "/nobody", 1)), want{"sentinel", c.Sentinels[1].Addr(), doctor.Broken, "No such master", "does not know this master", "SENTINEL MASTERS"})
	named := strings.NewReplacer("HOST:26379", c.Sentinels[1].Addr(), "NAME", testserver.SentinelName)
	for _, w := range []want{
		{"watched by sentinels", "", doctor.Warning, "sentinels watch this server", "leads to the old master", "-s 'redis-sentinel://HOST:26379/NAME?wait=1'"},
		{"server", "", doctor.Broken, "is a sentinel", "keeps no keys", "-s 'redis-sentinel://" + c.Sentinels[0].Addr() + "/NAME?wait=1'"},
	} {
		asked := c.Nodes[0]
		if w.check == "server" {
			asked = c.Sentinels[0]
		}
		before := doctortest.Examine(t, "redis://"+asked.Addr()+"?wait=1")
		doctortest.Mended(t, before, clean(t, named.Replace(replica.mend(see(t, before, w), ""))), w.check, "")
	}
}

func TestServersAndSentinelsThatAreAwayAreFound(t *testing.T) {
	t.Parallel()
	c, store := sentinels(t)
	c.Sentinels[2].Kill()
	see(t, doctortest.Examine(t, store), want{"sentinel", c.Sentinels[2].Addr(), doctor.Warning, "unreachable", "one more sentinel away", "PING"})
	c.Sentinels[1].Kill()
	doctortest.Eventually(t, "unable to fail over", func() bool {
		return doctortest.Find(t, doctortest.Examine(t, store), "failover", "").Level == doctor.Broken
	})
	see(t, doctortest.Examine(t, store), want{"failover", c.Sentinels[0].Addr(), doctor.Broken, "NOQUORUM", "would not be replaced", "SENTINEL SENTINELS pawl"})
	c.Nodes[1].Kill()
	see(t, doctortest.Examine(t, store), want{"server", c.Nodes[1].Addr(), doctor.Warning, "unreachable", "cannot become the master", "PING"})
	c.Nodes[0].Kill()
	see(t, doctortest.Examine(t, store), want{"server", c.Nodes[0].Addr(), doctor.Broken, "unreachable", "cannot be taken", "PING"})
	var before []doctor.Finding
	doctortest.Eventually(t, "seen by the sentinel", func() bool {
		before = doctortest.Examine(t, store)
		return doctortest.Find(t, before, "master state", "").Level == doctor.Broken
	})
	shell(t, see(t, before, want{"master state", "", doctor.Broken, "the sentinel says ", "back or replaced", "SENTINEL FAILOVER pawl"}).Mend)
	var after []doctor.Finding
	doctortest.Eventually(t, "replaced", func() bool {
		after = doctortest.Examine(t, store)
		return doctortest.Find(t, after, "master state", "").Level == doctor.OK
	})
	doctortest.Mended(t, before, after, "master state", "", "replicas", "min-replicas-to-write") // both others are away
}

// Nobody takes over from a master whose replicas are all gone.
func TestAMasterOfSentinelsWithoutReplicasIsFound(t *testing.T) {
	t.Parallel()
	c, store := sentinels(t)
	for _, n := range c.Nodes[1:] {
		n.Stop()
	}
	doctortest.Eventually(t, "no replica", func() bool {
		return strings.HasPrefix(doctortest.Find(t, doctortest.Examine(t, store), "replicas", "").Found, "0 of 0")
	})
	mend := "redis-cli -h HOST -p 6379 REPLICAOF " + strings.ReplaceAll(c.Nodes[0].Addr(), ":", " ")
	see(t, doctortest.Examine(t, strings.TrimSuffix(store, "?wait=1")), want{"replicas", "", doctor.Warning, "wait=0", "No server takes over", mend})
	before := doctortest.Examine(t, store)
	f := see(t, before, want{"replicas", "", doctor.Broken, "wait=1", "and fails", mend})
	added := testserver.Redis(t, safe...)
	shell(t, strings.Replace(f.Mend, "HOST -p 6379", fmt.Sprintf("127.0.0.1 -p %d", added.Port()), 1))
	c.AwaitReplicas(c.Nodes[0], 1)
	doctortest.Mended(t, before, doctortest.Examine(t, store), "replicas", f.Node)
}
