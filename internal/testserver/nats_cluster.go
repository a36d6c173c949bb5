package testserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A NATSCluster is several nats-servers with JetStream that elect leaders. Its members
// can be started, stopped and paused one by one.
type NATSCluster struct {
	Members []*Server
	t       testing.TB
	name    string
	ports   []int // of the routes between members
}

// NATSServers starts a cluster of n members and returns when all of them serve. With a
// nil reach the network has no faults; otherwise a message from one member to another
// goes to the address that reach returns, and its answer comes back from there. settings
// are added to the block jetstream of their configuration.
func NATSServers(t testing.TB, n int, reach Reach, settings ...string) *NATSCluster {
	t.Helper()
	return NATSNamed(t, "c", n, reach, settings...)
}

// NATSNamed is NATSServers for a cluster with a name, which is "c" there. A cluster has at
// least two members.
func NATSNamed(t testing.TB, name string, n int, reach Reach, settings ...string) *NATSCluster {
	t.Helper()
	ports := make([]int, n)
	c := &NATSCluster{t: t, name: name, ports: ports}
	for i := range n {
		ports[i] = FreePort(t)
	}
	for i := range n {
		spec := nats(t, memberName(i), []string{"jetstream { store_dir: data, " + strings.Join(settings, ", ") + " }", clusterConfig(name, i, ports, reach)})
		spec.Ready = nil // it only serves with a majority of the others
		c.Members = append(c.Members, Start(t, spec))
	}
	t.Cleanup(func() { // a member that is asked to stop hands its leads over first
		for _, s := range c.Members {
			s.Kill()
		}
	})
	c.Await()
	return c
}

// Join starts a further server of the cluster, which has no JetStream, and returns when
// the others know it.
func (c *NATSCluster) Join() *Server {
	c.t.Helper()
	ports := append(slices.Clone(c.ports), FreePort(c.t))
	spec := nats(c.t, memberName(len(c.ports)), []string{clusterConfig(c.name, len(c.ports), ports, nil)})
	spec.Ready = func(ctx context.Context, s *Server) error {
		var got struct {
			Routes []struct{} `json:"routes"`
		}
		if err := natsMonitor(ctx, s, "/routez", &got); err != nil || len(got.Routes) < len(c.ports) {
			return fmt.Errorf("%d routes: %v", len(got.Routes), err)
		}
		return nil
	}
	return Start(c.t, spec)
}

func memberName(i int) string { return fmt.Sprintf("member%d", i) }

func clusterConfig(name string, i int, ports []int, reach Reach) string {
	// Members tell each other the addresses that they advertise and connect there too,
	// past the network of the test; on this one nobody listens.
	advertise := ""
	if reach != nil {
		advertise = "advertise: \"127.0.0.1:1\", "
	}
	var routes []string
	for j, port := range ports {
		if i == j {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if reach != nil {
			address = reach(i, j, address)
		}
		routes = append(routes, "nats-route://"+address)
	}
	return fmt.Sprintf("cluster { name: %s, listen: \"127.0.0.1:%d\", %sno_advertise: true, routes: [%s] }", name, ports[i], advertise, strings.Join(routes, ", "))
}

// Addrs returns the addresses for clients of these members; by default of all.
func (c *NATSCluster) Addrs(members ...int) (addrs []string) {
	for _, i := range c.these(members) {
		addrs = append(addrs, c.Members[i].Addr())
	}
	return addrs
}

// Except returns all members but one.
func (c *NATSCluster) Except(one int) (members []int) {
	for i := range c.Members {
		if i != one {
			members = append(members, i)
		}
	}
	return members
}

func (c *NATSCluster) these(members []int) []int {
	if len(members) == 0 {
		return c.Except(-1)
	}
	return members
}

// Await returns when these members serve, by default all: they know a leader of
// JetStream, and those of their streams.
func (c *NATSCluster) Await(members ...int) {
	c.t.Helper()
	for _, i := range c.these(members) {
		var err error
		c.poll(fmt.Sprintf("member %d serves", i), &err, func(ctx context.Context) bool {
			err = natsReady(ctx, c.Members[i])
			return err == nil
		})
	}
}

// Leader returns which member of among leads a stream, or JetStream itself if stream is
// "": the one that says so of itself. By default all are asked; a paused one must not be
// among them. It waits until there is one.
func (c *NATSCluster) Leader(stream string, among ...int) (leader int) {
	c.t.Helper()
	var err error
	c.poll(fmt.Sprintf("%q has a leader", stream), &err, func(ctx context.Context) bool {
		for _, i := range c.these(among) {
			var leads bool
			if leads, err = natsLeads(ctx, c.Members[i], memberName(i), stream); leads {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// poll waits until done, and fails the test with err if that takes too long.
func (c *NATSCluster) poll(what string, err *error, done func(context.Context) bool) {
	c.t.Helper()
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(20 * time.Millisecond) { // poll: there is no notification
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		enough := done(ctx)
		cancel()
		if enough {
			return
		}
	}
	c.t.Fatalf("the cluster does not come to where %s: %v", what, *err)
}

// natsLeads reports whether a member takes itself for the leader.
func natsLeads(ctx context.Context, s *Server, name, stream string) (bool, error) {
	type group struct {
		Leader   string
		Replicas []struct{ Name string } // without them the leader named is always the member asked
	}
	var got struct {
		Meta     group `json:"meta_cluster"`
		Accounts []struct {
			Streams []struct {
				Name    string
				Cluster group
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := natsMonitor(ctx, s, "/jsz?accounts=true&streams=true", &got); err != nil {
		return false, err
	}
	if stream == "" {
		return got.Meta.Leader == name, nil
	}
	for _, account := range got.Accounts {
		for _, s := range account.Streams {
			if s.Name == stream {
				return s.Cluster.Leader == name && len(s.Cluster.Replicas) > 0, nil
			}
		}
	}
	return false, fmt.Errorf("%s has no stream %q", name, stream)
}
