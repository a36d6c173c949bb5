package etcdlock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/soaktest"
)

// TestSoakFaultsOfThreeMembers runs for as long as PAWL_SOAK says.
func TestSoakFaultsOfThreeMembers(t *testing.T) {
	d := soaktest.Length(t)
	c, network := cluster(t)
	soaktest.Run(t, d, soaktest.Cluster{
		Members: c.Members, Network: network, Longest: 4 * time.Second,
		Leader: func() int { return c.Leader() }, MoveLeader: func() bool { return moveLeader(t, c) }, Await: c.Await,
	}, func(addrs []string) *pawl.Client { return connectedClient(t, addrs, soaktest.TTL) })
}
