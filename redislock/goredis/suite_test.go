package goredis_test

import (
	"context"
	"net"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/internal/adaptertest"
)

func TestAdapter(t *testing.T) { adaptertest.Run(t, connect) }

// connect makes a client and an engine on it.
func connect(t *testing.T, c adaptertest.Config, opts ...redislock.Option) *adaptertest.Connected {
	var dial func(ctx context.Context, network, addr string) (net.Conn, error)
	if c.Dial != nil {
		dial = func(_ context.Context, _, addr string) (net.Conn, error) { return c.Dial(addr) }
	}
	own := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: c.Addrs, IsClusterMode: c.Cluster, Username: c.User, Password: c.Password,
		PoolSize: c.Pool, ReadTimeout: c.ReadTimeout, Dialer: dial,
	})
	e := goredis.New(own, opts...)
	closeClient := func() { _ = own.Close() }
	t.Cleanup(closeClient)
	t.Cleanup(func() { _ = e.Close() })
	return &adaptertest.Connected{Engine: e, CloseClient: closeClient, Borrow: func(ctx context.Context, n int) error {
		return borrow(ctx, own.(*redis.Client), n)
	}, Send: func(ctx context.Context, n int, words ...string) (err error) {
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		for range n {
			one := own.(*redis.Client).Conn()
			defer one.Close()
			err = one.Do(ctx, args...).Err()
		}
		return err
	}}
}

// borrow uses n connections at once, for single commands and for pipelines.
func borrow(ctx context.Context, c *redis.Client, n int) error {
	for range n {
		one := c.Conn()
		defer one.Close()
		if err := one.Ping(ctx).Err(); err != nil {
			return err
		}
	}
	done := make(chan error, n)
	for range n {
		go func() {
			p := c.Pipeline()
			p.Do(ctx, "WAIT", 9, 100) // no server of the tests has so many replicas
			_, err := p.Exec(ctx)
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func laws(t *testing.T, c redis.UniversalClient, nodes []string, opts ...redislock.Option) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	adaptertest.Laws(t, "redis/go-redis", nodes, func(opts ...redislock.Option) driver.Engine { return goredis.New(c, opts...) }, opts...)
}

func TestLawsOnOneNode(t *testing.T) {
	s := testserver.Redis(t)
	laws(t, redis.NewClient(&redis.Options{Addr: s.Addr()}), []string{s.Addr()})
}

func TestLawsWithReplicasWaitedFor(t *testing.T) {
	s := testserver.Redis(t)
	testserver.RedisReplica(t, s.Addr())
	laws(t, redis.NewClient(&redis.Options{Addr: s.Addr()}), []string{s.Addr()}, redislock.WithWait(1, 2*time.Second))
}

func TestLawsInACluster(t *testing.T) {
	s := testserver.RedisCluster(t)
	laws(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs()}), s.Addrs())
}
