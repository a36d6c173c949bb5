package etcdlock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/holdcheck"
	"github.com/pawl-go/pawl/internal/testserver"
)

// contenders are clients that lock one name over and over.
type contenders struct {
	*holdcheck.Checker
	t *testing.T
	c *testserver.EtcdCluster
}

// contend makes n clients lock name repeatedly until the test ends.
func contend(t *testing.T, c *testserver.EtcdCluster, name string, ttl time.Duration, n int) contenders {
	clients := make([]*pawl.Client, n)
	for i := range clients {
		clients[i] = connectedClient(t, c.Addrs(), ttl)
	}
	return contenders{holdcheck.Contend(t, name, clients...), t, c}
}

// goesOn expects more holds. The limit counts only the time in which the given members, or
// all, take writes.
func (a contenders) goesOn(what string, within time.Duration, members ...int) {
	a.t.Helper()
	a.GoesOn(what, within, serving(a.t, a.c, members...))
}

// connectedClient returns a client that had an answer from its store. A client that
// never had one gives up soon, and on a stalled machine that is too soon.
func connectedClient(t *testing.T, addrs []string, ttl time.Duration) *pawl.Client {
	t.Helper()
	c := client(t, addrs, ttl)
	for begun := time.Now(); ; {
		err := c.Mutex("hello/"+newID()).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil })
		if err == nil {
			return c
		}
		if time.Since(begun) > clusterTimeout {
			t.Fatalf("locking in a healthy cluster: %v", err)
		}
	}
}

// clusterTimeout bounds elections and restarts of a cluster.
const clusterTimeout = 30 * time.Second

// serving counts the time in which members of a cluster take writes.
func serving(t *testing.T, c *testserver.EtcdCluster, members ...int) *testserver.Service {
	addrs := c.Addrs()
	if len(members) > 0 {
		addrs = addrsOf(c, members...)
	}
	store := dial(t, addrs)
	return testserver.Serving(t, func(ctx context.Context) error {
		_, err := store.Put(ctx, "service", "")
		return err
	})
}
