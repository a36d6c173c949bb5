package rueidis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func TestLawsOnOneNode(t *testing.T) {
	s := testserver.Redis(t)
	drivertest.Run(t, harness(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true}))
}

func TestLawsWithReplicasWaitedFor(t *testing.T) {
	s := testserver.Redis(t)
	testserver.RedisReplica(t, s.Addr())
	drivertest.Run(t, harness(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true},
		redislock.WithWait(1, 5*time.Second)))
}

func TestLawsBehindSentinels(t *testing.T) {
	s := testserver.RedisSentinel(t)
	drivertest.Run(t, harness(t, redis.ClientOption{
		InitAddress: s.Addrs(), Sentinel: redis.SentinelOption{MasterSet: testserver.SentinelName}, DisableCache: true,
	}))
}

func TestLawsInACluster(t *testing.T) {
	s := testserver.RedisCluster(t)
	drivertest.Run(t, harness(t, redis.ClientOption{InitAddress: s.Addrs(), DisableCache: true}))
}

// harness runs the suite on one client, each case under its own prefix, so that Clean can
// see what a case leaves.
func harness(t *testing.T, o redis.ClientOption, opts ...redislock.Option) drivertest.Harness {
	c, err := redis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var cases atomic.Int64
	var prefixes sync.Map // of engines
	open := func(prefix string) driver.Engine {
		e := rueidis.New(c, append(opts, redislock.WithPrefix(prefix))...)
		prefixes.Store(e, prefix)
		return e
	}
	return drivertest.Harness{
		Open: func(*testing.T) driver.Engine { return open(fmt.Sprintf("case%d:", cases.Add(1))) },
		Peer: func(_ *testing.T, e driver.Engine) driver.Engine {
			prefix, _ := prefixes.Load(e)
			return open(prefix.(string))
		},
		MinTTL: 600 * time.Millisecond,
		Clean: func(_ *testing.T, e driver.Engine) error {
			prefix, _ := prefixes.Load(e)
			return leftovers(c, prefix.(string))
		},
		Stays: func(stack string) bool {
			return strings.Contains(stack, "github.com/redis/rueidis.") && !strings.Contains(stack, "pawl/redislock")
		},
	}
}

// leftovers reports keys under prefix, except fences.
func leftovers(c redis.Client, prefix string) error {
	for _, n := range c.Nodes() {
		keys, err := n.Do(context.Background(), n.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if !isFence(strings.TrimPrefix(key, prefix)) {
				value, _ := n.Do(context.Background(), n.B().Get().Key(key).Build()).ToString() // for the message; it may not be a string
				return fmt.Errorf("key %q, %q", key, value)
			}
		}
	}
	return nil
}

// isFence reports whether the rest of a key is a fence or a quorum membership, which stay.
func isFence(rest string) bool {
	return rest == "\x01f" || rest == "\x01q" || strings.HasPrefix(rest, "\x01{") && strings.HasSuffix(rest, "}f")
}

func TestLawsOnValkey(t *testing.T) {
	s := testserver.Valkey(t)
	drivertest.Run(t, harness(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true}))
}

func TestLawsWithoutScripts(t *testing.T) {
	s := testserver.Valkey(t)
	drivertest.Run(t, harness(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true},
		redislock.WithoutScripts()))
}
