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

// TestSoakLawsOnOneMember repeats the suite for as long as PAWL_SOAK says. The usual tests
// run Debian's etcd with one member and the newest etcd with three.
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
	// A long election timeout, so that a stalled machine causes no election: the longest with
	// which the server still grants a lease of two seconds.
	laws(t, testserver.NewEtcds(t, 3, nil, "--election-timeout=1300").Addrs()...)
}

// laws runs the suite on a cluster. Every engine has a client of its own, as another
// process would, and every case has its own prefix.
func laws(t *testing.T, addrs ...string) {
	var cases atomic.Int64
	var leases sync.Map      // by prefix
	var delayedPuts sync.Map // by the cache that an engine shares with its sessions
	open := func(t *testing.T, prefix string) driver.Engine {
		mine, _ := leases.LoadOrStore(prefix, &leaseLog{})
		d := &delayedPut{}
		e := newTestEngine(dial(t, addrs, mine.(*leaseLog).note(), d.option()), prefix)
		delayedPuts.Store(e.holders, d)
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Engine { return open(t, fmt.Sprintf("case/%d/", cases.Add(1))) },
		Peer: func(t *testing.T, e driver.Engine) driver.Engine { return open(t, string(e.(*Engine).keys)) },
		Clean: func(t *testing.T, e driver.Engine) error {
			mine, _ := leases.Load(string(e.(*Engine).keys))
			return mine.(*leaseLog).clean(e.(*Engine))
		},
		DelayEnter: func(_ *testing.T, s driver.Session) (arrive func() error) {
			d, _ := delayedPuts.Load(s.(*session).holders)
			return d.(*delayedPut).hold()
		},
		MinTTL: 2 * time.Second, // the server's own minimum
	})
}

// clean reports keys and leases that an engine left behind.
func (g *leaseLog) clean(e *Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	keys, err := clientOf(e).Get(ctx, string(e.keys), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if len(keys.Kvs) > 0 {
		return fmt.Errorf("%d keys are left, the first is %q", len(keys.Kvs), keys.Kvs[0].Key)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range g.ids {
		got, err := clientOf(e).TimeToLive(ctx, clientv3.LeaseID(id))
		if err != nil {
			return err
		}
		if got.TTL >= 0 {
			return fmt.Errorf("lease %x is left, for %d s", id, got.TTL)
		}
	}
	return nil
}
