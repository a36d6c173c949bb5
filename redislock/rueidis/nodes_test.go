package rueidis

import (
	"testing"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// noMasters is a cluster client that knows no node.
type noMasters struct{ redis.Client }

func (noMasters) Mode() redis.ClientMode         { return redis.ClientModeCluster }
func (noMasters) Nodes() map[string]redis.Client { return nil }

// Without a master, Scan would report no locks, and the eviction policy would count as
// checked.
func TestAClusterWithoutAMasterIsAnError(t *testing.T) {
	t.Parallel()
	c := newClient(noMasters{}, false)
	if err := redisclient.Scan(t.Context(), c, "*", func(string) {}); err == nil {
		t.Error("Scan found all keys of no node")
	}
}
