// Package adaptertest is the suite of the adapters: what an engine on a client of any
// library keeps to, on real servers. The tests of redislock/rueidis and redislock/goredis
// run it; what concerns one library alone is tested beside its adapter.
package adaptertest

import (
	"context"
	"net"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
)

// An Adapter connects a client of one library, and makes an engine of it. The test ends
// with both closed.
type Adapter func(t *testing.T, c Config, opts ...redislock.Option) *Connected

// A Config says how a client is made; what it does not say is the library's default.
type Config struct {
	Addrs          []string
	Cluster        bool
	User, Password string
	Pool           int                                 // connections that the client lends
	ReadTimeout    time.Duration                       // after which a client takes a connection for dead
	Dial           func(addr string) (net.Conn, error) // nil: TCP
}

// Connected is an engine and the client it uses.
type Connected struct {
	driver.Engine
	CloseClient func()
	// Borrow has n connections of the client's pools in use at once, and returns them; so
	// the pool has as many.
	Borrow func(ctx context.Context, n int) error
	// Send sends a command of the program's on n connections of the pool, and returns them.
	Send func(ctx context.Context, n int, words ...string) error
}

// A testCase is what one subtest checks.
type testCase func(*testing.T, Adapter)

// Run runs all cases.
func Run(t *testing.T, connect Adapter) {
	run(t, connect, silentCases)
	run(t, connect, map[string]testCase{
		"a client that retries does not repeat a lock":                     retriesNoLock,
		"a client that retries repeats a scan":                             retriesScan,
		"a call comes back when its ctx ends":                              comesBack,
		"replicas may take longer to confirm than replies":                 longWait,
		"replicas of a cluster may take longer to confirm than replies":    longWaitInACluster,
		"a list of a cluster that lacks a master is an error":              listsWithoutAMaster,
		"the names of the masters that are left can be locked":             locksWithoutAMaster,
		"a node that is silent delays no other's renewals":                 renewsBesideASilentNode,
		"the program has connections left":                                 leavesConnections,
		"a name that is forbidden does not fail the calls it travels with": forbiddenName,
		"a watch without the right to its channel is denied":               deniedWatch,
		"a right that is missing in a script is a denial":                  deniedInScript,
		"a lock that could not be renewed is denied":                       deniedRenewal,
		"a call that an operator unblocked is repeated":                    unblocked,
		"a client that was closed is not waited for":                       closedClient,
		"a node of a cluster is recognised":                                clusterNode,
		"what the program left on a connection":                            leftBehind,
	})
}

// RunSilent runs the cases of connections that die silently.
func RunSilent(t *testing.T, connect Adapter) { run(t, connect, silentCases) }

var silentCases = map[string]testCase{
	"a lease outlives connections that die silently":             outlivesSilence,
	"a free name is locked though all connections died silently": locksAfterSilence,
	"a lock is given back though all connections died silently":  unlocksAfterSilence,
}

func run(t *testing.T, connect Adapter, cases map[string]testCase) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, connect)
		})
	}
}

// soon bounds events that need no timer, on a busy machine.
const soon = 5 * time.Second

func mutex(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

func session(t *testing.T, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A console is an operator's connection.
type console struct {
	t *testing.T
	c redis.Client
}

func newConsole(t *testing.T, addr string) console {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return console{t, c}
}

// do sends a command that must succeed.
func (c console) do(words ...string) string {
	c.t.Helper()
	m, err := c.c.Do(c.t.Context(), c.c.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !redis.IsRedisNil(err) {
		c.t.Fatalf("%v: %v", words, err)
	}
	text, _ := m.ToString() // of another reply nothing is needed
	return text
}
