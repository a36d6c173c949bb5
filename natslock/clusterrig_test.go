package natslock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/holdcheck"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

const (
	clusterTTL     = 5 * time.Second  // shorter than most elections, so that holders lose their lease in them
	longTTL        = 2 * time.Minute  // of holds that outlive every election
	clusterTimeout = time.Minute      // for elections, restarts, and clients that notice them
	untilNoticed   = 20 * time.Second // after which a client has left a server that does not answer
	testBucket     = "test"
)

// testStream is the stream of the bucket of all cluster tests: each has its own cluster.
var testStream = natsstore.StreamName(testBucket)

// cluster starts three servers on a network that the test can cut.
func cluster(t *testing.T) (*testserver.NATSCluster, *faultproxy.Network) {
	n := faultproxy.NewNetwork(t)
	return testserver.NATSServers(t, 3, n.Reach), n
}

// clusterEngine returns an engine with a connection as a user's URL makes it.
func clusterEngine(t testing.TB, addrs ...string) driver.Engine {
	t.Helper()
	u := &url.URL{Scheme: "nats", Host: strings.Join(addrs, ","), Path: "/" + testBucket}
	e, err := openURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// storeOn returns a store that is connected to one member and may use all.
func storeOn(t testing.TB, c *testserver.NATSCluster, member int) *store {
	t.Helper()
	config := nats.GetDefaultOptions()
	config.NoRandomize = true
	for _, addr := range c.Addrs(append([]int{member}, c.Except(member)...)...) {
		config.Servers = append(config.Servers, "nats://"+addr)
	}
	s, err := dial(t.Context(), natsstore.Settings{Config: config, Bucket: testBucket})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func clusterClient(t testing.TB, ttl time.Duration, addrs ...string) *pawl.Client {
	t.Helper()
	return answeredClient(t, ttl, clusterEngine(t, addrs...))
}

// answeredClient returns a client that had an answer from its store: one that never had
// gives up soon, which on a stalled machine is too soon.
func answeredClient(t testing.TB, ttl time.Duration, e driver.Engine) *pawl.Client {
	t.Helper()
	c := pawl.New(e, pawl.WithTTL(ttl))
	t.Cleanup(func() { c.Close() })
	for begun := time.Now(); ; {
		err := c.Mutex("hello/"+claimID()).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil })
		if err == nil {
			return c
		}
		if time.Since(begun) > clusterTimeout {
			t.Fatalf("locking in a healthy cluster: %v", err)
		}
	}
}

func claimID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// queues returns an exclusive claim on name that queues.
func queues(name string) driver.Claim {
	return driver.Claim{ID: claimID(), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

// clusterSession opens a session that nobody beats.
func clusterSession(t testing.TB, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: claimID(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustHold enters c, which is held at once.
func mustHold(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil || !st.Held {
		t.Fatalf("Enter: %+v, %v", st, err)
	}
	return st
}

func mustLock(t testing.TB, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

// serving counts the time in which these members, by default all, take writes.
func serving(t *testing.T, c *testserver.NATSCluster, members ...int) *testserver.Service {
	js := connect(t, c.Addrs(members...)...)
	return testserver.Serving(t, func(ctx context.Context) error {
		_, err := js.Publish(ctx, "$KV."+testBucket+".service", nil)
		return err
	})
}

// contenders are clients that lock one name over and over.
type contenders struct {
	*holdcheck.Checker
	t *testing.T
	c *testserver.NATSCluster
}

// contend makes n clients lock a name until the test ends.
func contend(t *testing.T, c *testserver.NATSCluster, n int) contenders {
	clients := make([]*pawl.Client, n)
	for i := range clients {
		clients[i] = clusterClient(t, clusterTTL, c.Addrs()...)
	}
	return contenders{holdcheck.Contend(t, "name", clients...), t, c}
}

// goOn expects more holds, in a time that counts only while the members take writes.
func (a contenders) goOn(what string, members ...int) {
	a.t.Helper()
	a.GoesOn(what, 2*clusterTTL+untilNoticed, serving(a.t, a.c, members...))
}
