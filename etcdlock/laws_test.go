package etcdlock

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestLawsOnDebiansEtcd(t *testing.T) {
	t.Parallel()
	laws(t, testserver.Etcd(t).Addr())
}

// TestSoakLawsOnOneMember runs the suite again and again for as long as PAWL_SOAK says.
// Without it, one member is Debian's, and the newest etcd is three.
func TestSoakLawsOnOneMember(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	server := testserver.NewEtcd(t)
	rounds := 0
	for begun := time.Now(); time.Since(begun) < d && !t.Failed(); rounds++ {
		t.Run(fmt.Sprint("round ", rounds), func(t *testing.T) { laws(t, server.Addr()) })
	}
	t.Logf("%d rounds", rounds)
}

func TestLawsOnThreeMembers(t *testing.T) {
	t.Parallel()
	// Slow to elect, so that a machine that stands still has no election to go through:
	// the most at which the server still keeps a lease of two seconds.
	laws(t, testserver.NewEtcds(t, 3, nil, "--election-timeout=1300").Addrs()...)
}

// laws runs the suite on a cluster. Every engine has a client of its own, as
// another process would, and every case a prefix of its own.
func laws(t *testing.T, addrs ...string) {
	var cases atomic.Int64
	var leases sync.Map  // of the prefix's space
	var detours sync.Map // by engine
	open := func(t *testing.T, prefix string) driver.Engine {
		mine, _ := leases.LoadOrStore(prefix, &granted{})
		d := &detour{}
		e := New(dial(t, addrs, mine.(*granted).note(), d.option()), Prefix(prefix))
		detours.Store(e, d)
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Engine { return open(t, fmt.Sprintf("case/%d/", cases.Add(1))) },
		Peer: func(t *testing.T, e driver.Engine) driver.Engine { return open(t, string(e.(*Engine).space)) },
		Clean: func(t *testing.T, e driver.Engine) error {
			mine, _ := leases.Load(string(e.(*Engine).space))
			return mine.(*granted).clean(e.(*Engine))
		},
		DelayEnter: func(_ *testing.T, s driver.Session) (arrive func() error) {
			d, _ := detours.Load(s.(*session).e)
			return d.(*detour).hold()
		},
		MinTTL: 2 * time.Second, // the server's own minimum
	})
}

// clean reports what is left of an engine: keys under its prefix, and leases.
func (g *granted) clean(e *Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	keys, err := e.client.Get(ctx, string(e.space), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if len(keys.Kvs) > 0 {
		return fmt.Errorf("%d keys are left, the first is %q", len(keys.Kvs), keys.Kvs[0].Key)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range g.ids {
		got, err := e.client.TimeToLive(ctx, clientv3.LeaseID(id))
		if err != nil {
			return err
		}
		if got.TTL >= 0 {
			return fmt.Errorf("lease %x is left, for %d s", id, got.TTL)
		}
	}
	return nil
}
