package testserver

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Slots is the number of slots of a cluster.
const Slots = 16384

// A Cluster is a Redis Cluster of masters, without replicas unless a test adds them.
type Cluster struct {
	Nodes []*Server

	t  testing.TB
	id map[*Server]string
}

// RedisCluster starts a cluster of three masters, each like [Redis], with equal
// shares of the slots, and returns when all agree that it is healthy. args apply to
// all three. A node that is silent for five seconds counts as failed.
func RedisCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, id: map[*Server]string{}}
	const nodes = 3
	for i := range nodes {
		s := Start(t, clusterNode(args...))
		c.Nodes = append(c.Nodes, s)
		c.id[s] = fmt.Sprint(must(t, s.Addr(), "CLUSTER", "MYID"))
		// Nodes that meet with the same epoch would have to resolve the conflict
		// first.
		must(t, s.Addr(), "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		must(t, s.Addr(), "CLUSTER", "ADDSLOTSRANGE",
			strconv.Itoa(i*Slots/nodes), strconv.Itoa((i+1)*Slots/nodes-1))
		for _, other := range c.Nodes[:i] {
			must(t, s.Addr(), "CLUSTER", "MEET", "127.0.0.1",
				strconv.Itoa(other.Port()), strconv.Itoa(other.Ports()[1]))
		}
	}
	c.AwaitOK()
	return c
}

// Addrs returns the addresses of the nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// AwaitOK waits until every node knows all others and reports that every slot is
// served. It must be called from the test's own goroutine.
func (c *Cluster) AwaitOK() {
	c.t.Helper()
	for _, s := range c.Nodes {
		await(c.t, "cluster node "+s.Addr(), func(ctx context.Context) error {
			answer, err := ask(ctx, s.Addr(), "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			text, _ := answer.(string)
			for _, want := range []string{
				"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", Slots),
				fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)),
			} {
				if !strings.Contains(text, want+"\r\n") {
					return fmt.Errorf("%s lacks %q: %s", s.Addr(), want, text)
				}
			}
			return nil
		})
	}
}

// AddReplicas gives each master a replica, and returns when it has a full copy.
func (c *Cluster) AddReplicas() {
	c.t.Helper()
	masters := c.Nodes
	for _, m := range masters {
		s := Start(c.t, clusterNode())
		c.Nodes = append(c.Nodes, s)
		must(c.t, s.Addr(), "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(m.Port()), strconv.Itoa(m.Ports()[1]))
		await(c.t, "replica of "+m.Addr(), func(ctx context.Context) error {
			if _, err := ask(ctx, s.Addr(), "CLUSTER", "REPLICATE", c.id[m]); err != nil { // they have not met
				return err
			}
			return expectInfo(ctx, s.Addr(), "replication", "master_link_status:up")
		})
	}
	c.AwaitOK()
}

// RedisNode starts a Redis for a cluster, like those of [RedisCluster], that is in none yet.
func RedisNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, clusterNode(args...))
}

func clusterNode(args ...string) Spec {
	spec := redis(args...)
	settings := spec.Args
	spec.Ports = 2 // for clients and for the other nodes: port + 10000 may be taken or out of range
	spec.Args = func(s *Server) []string {
		return append([]string{
			"--cluster-enabled", "yes",
			"--cluster-config-file", filepath.Join(s.Dir(), "nodes.conf"),
			"--cluster-port", strconv.Itoa(s.Ports()[1]),
			"--cluster-node-timeout", "5000", // so that a loaded machine does not look like a failure
		}, settings(s)...)
	}
	return spec
}
