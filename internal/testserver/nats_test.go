package testserver

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/faultproxy"
)

func TestNATSGreetsItsClients(t *testing.T) {
	t.Parallel()
	s := NATS(t)
	beforeAndAfterKill(t, s, func(c *connection) {
		if answer, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "INFO ") {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

func TestANATSClusterElectsAnotherLeader(t *testing.T) {
	t.Parallel()
	c := NATSServers(t, 3, nil)
	first := c.Leader("")
	c.Members[first].Kill()
	if second := c.Leader("", c.Except(first)...); second == first {
		t.Errorf("member %d leads, which was killed", second)
	}
	c.Members[first].Restart()
	c.Await()
}

// Members would find each other past the network of the test if they could.
func TestTheOthersElectALeaderWhenANATSMemberIsIsolated(t *testing.T) {
	t.Parallel()
	n := faultproxy.NewNetwork(t)
	c := NATSServers(t, 3, n.Reach)
	first := c.Leader("")
	n.Isolate(first)
	if second := c.Leader("", c.Except(first)...); second == first {
		t.Errorf("member %d leads, which is isolated", second)
	}
	n.Heal()
	c.Await()
}
