package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// SentinelName is the name of the master in [RedisSentinel].
const SentinelName = "pawl"

// A Sentinel is a Redis with replicas and the sentinels that monitor it.
type Sentinel struct {
	Nodes     []*Server // the first is the initial master
	Sentinels []*Server

	t testing.TB
}

// RedisSentinel starts a Redis master with two replicas, like [RedisReplica], and
// three sentinels with a quorum of two, and returns when all know each other. args
// apply to the three nodes. A master that is silent for two seconds is replaced;
// there is a new one about three seconds after its end.
func RedisSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	master := Start(t, replica("", args...))
	c := &Sentinel{t: t, Nodes: []*Server{master}}
	for range 2 {
		c.Nodes = append(c.Nodes, RedisReplica(t, master.Addr(), args...))
	}
	for range 3 {
		c.Sentinels = append(c.Sentinels, Start(t, sentinel(master)))
	}
	for _, s := range c.Sentinels {
		await(t, "sentinel "+s.Addr(), func(ctx context.Context) error {
			return expectFields(ctx, s.Addr(), map[string]string{
				"flags": "master", "num-slaves": "2", "num-other-sentinels": "2",
			})
		})
	}
	return c
}

// Addrs returns the addresses of the sentinels.
func (c *Sentinel) Addrs() (addrs []string) {
	for _, s := range c.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// AwaitMaster waits until all running sentinels agree on a master other than the
// given ones and that node knows that it is one, and returns it. It must be called
// from the test's own goroutine.
func (c *Sentinel) AwaitMaster(other ...*Server) *Server {
	c.t.Helper()
	var master *Server
	await(c.t, "a new master", func(ctx context.Context) (err error) {
		master, err = c.agreed(ctx)
		if err != nil {
			return err
		}
		for _, old := range other {
			if master == old {
				return fmt.Errorf("the master is still %s", old.Addr())
			}
		}
		return expectInfo(ctx, master.Addr(), "replication", "role:master")
	})
	return master
}

// AwaitReplicas waits until the node is a master with n replicas. It must be called
// from the test's own goroutine.
func (c *Sentinel) AwaitReplicas(master *Server, n int) {
	c.t.Helper()
	await(c.t, "replicas", func(ctx context.Context) error { return expectReplicas(ctx, master.Addr(), n) })
}

// AwaitWhole waits until the sentinels agree on a master that all other nodes replicate:
// between [Sentinel.AwaitMaster] and [Sentinel.AwaitReplicas] a failover that is under way
// may end. It must be called from the test's own goroutine.
func (c *Sentinel) AwaitWhole() {
	c.t.Helper()
	await(c.t, "a master with all replicas", func(ctx context.Context) error {
		master, err := c.agreed(ctx)
		if err != nil {
			return err
		}
		return expectReplicas(ctx, master.Addr(), len(c.Nodes)-1)
	})
}

// agreed returns the master that all running sentinels name.
func (c *Sentinel) agreed(ctx context.Context) (*Server, error) {
	var master *Server
	for _, s := range c.Sentinels {
		if s.current().ended() {
			continue
		}
		answer, err := ask(ctx, s.Addr(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
		if err != nil {
			return nil, err
		}
		named := c.node(answer)
		if named == nil || master != nil && master != named {
			return nil, fmt.Errorf("sentinel %s names %v", s.Addr(), answer)
		}
		master = named
	}
	if master == nil {
		return nil, fmt.Errorf("no sentinel runs")
	}
	return master, nil
}

func (c *Sentinel) node(answer any) *Server {
	pair, _ := answer.([]any)
	if len(pair) != 2 {
		return nil
	}
	addr := net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
	for _, s := range c.Nodes {
		if s.Addr() == addr {
			return s
		}
	}
	return nil
}

func sentinel(master *Server) Spec {
	file := func(s *Server) string { return filepath.Join(s.Dir(), "sentinel.conf") }
	return Spec{
		Name:    "sentinel",
		Package: "redis-server",
		Binary:  File{"redis-server"},
		Prepare: func(_ context.Context, s *Server) error {
			// A separate file, because the sentinel writes its state into it.
			return os.WriteFile(file(s), fmt.Appendf(nil, `bind 127.0.0.1
port %[1]d
sentinel monitor %[3]s 127.0.0.1 %[2]d 2
sentinel down-after-milliseconds %[3]s 2000
sentinel failover-timeout %[3]s 3000
sentinel parallel-syncs %[3]s 2
`, s.Port(), master.Port(), SentinelName), 0o600)
		},
		Args: func(s *Server) []string {
			return []string{file(s), "--sentinel", "--dir", s.Dir(), "--daemonize", "no"}
		},
		Ready: redisReady,
	}
}

// expectFields compares what a sentinel reports about its master.
func expectFields(ctx context.Context, addr string, want map[string]string) error {
	answer, err := ask(ctx, addr, "SENTINEL", "MASTER", SentinelName)
	if err != nil {
		return err
	}
	fields, _ := answer.([]any)
	found := 0
	for i := 0; i+1 < len(fields); i += 2 {
		if value, ok := want[fmt.Sprint(fields[i])]; ok && value == fields[i+1] {
			found++
		}
	}
	if found < len(want) {
		return fmt.Errorf("sentinel %s tells %v, want %v", addr, fields, want)
	}
	return nil
}
