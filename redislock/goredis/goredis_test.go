package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

func TestLawsOnOneNode(t *testing.T) {
	s := testserver.Redis(t)
	drivertest.Run(t, harness(t, redis.NewClient(&redis.Options{Addr: s.Addr()})))
}

func TestLawsWithReplicasWaitedFor(t *testing.T) {
	s := testserver.Redis(t)
	testserver.RedisReplica(t, s.Addr())
	drivertest.Run(t, harness(t, redis.NewClient(&redis.Options{Addr: s.Addr()}), redislock.WithWait(1, 2*time.Second)))
}

func TestLawsInACluster(t *testing.T) {
	s := testserver.RedisCluster(t)
	drivertest.Run(t, harness(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs()})))
}

// harness runs the suite on one client, each case under its own prefix, so that Clean can
// see what a case leaves.
func harness(t *testing.T, c redis.UniversalClient, opts ...redislock.Option) drivertest.Harness {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	var cases atomic.Int64
	var prefixes sync.Map // of engines
	open := func(prefix string) driver.Engine {
		e := goredis.New(c, append(opts, redislock.WithPrefix(prefix))...)
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
			return strings.Contains(stack, "redis/go-redis") && !strings.Contains(stack, "pawl/redislock")
		},
	}
}

// leftovers reports keys under prefix, except fences and quorum memberships, which stay.
func leftovers(c redis.UniversalClient, prefix string) error {
	look := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			rest := strings.TrimPrefix(key, prefix)
			if rest != "\x01f" && rest != "\x01q" && !(strings.HasPrefix(rest, "\x01{") && strings.HasSuffix(rest, "}f")) {
				return fmt.Errorf("key %q", key)
			}
		}
		return nil
	}
	switch c := c.(type) {
	case *redis.Client:
		return look(context.Background(), c)
	case *redis.ClusterClient:
		return c.ForEachMaster(context.Background(), look)
	}
	return errors.New("a client of another kind")
}
