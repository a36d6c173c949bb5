package natslock

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/soaktest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// TestSoakFaultsOfThreeServers runs for as long as PAWL_SOAK says. Servers elect another
// leader of a stream after four to nine seconds of silence.
func TestSoakFaultsOfThreeServers(t *testing.T) {
	d := soaktest.Length(t)
	c, network := cluster(t)
	js := connect(t, c.Addrs()...)
	soaktest.Run(t, d, soaktest.Cluster{
		Members: c.Members, Network: network, Longest: 15 * time.Second,
		Leader: func() int { return c.Leader(testStream) }, MoveLeader: func() bool { return moveLeader(t, c, js) }, Await: func() { c.Await() },
	}, func(addrs []string) *pawl.Client { return clusterClient(t, soaktest.TTL, addrs...) })
}

// moveLeader makes the leader of the stream step down, and reports whether it did.
func moveLeader(t *testing.T, c *testserver.NATSCluster, js jetstream.JetStream) bool {
	t.Helper()
	c.Leader(testStream)
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	defer cancel()
	var answer struct {
		Success bool
		Error   jetstream.APIError
	}
	msg, err := js.Conn().RequestWithContext(ctx, api+"STREAM.LEADER.STEPDOWN."+testStream, nil)
	if err == nil {
		err = json.Unmarshal(msg.Data, &answer)
	}
	if err != nil || !answer.Success {
		t.Logf("moving the leader: %v, %v", answer.Error.Description, err)
	}
	return answer.Success
}
