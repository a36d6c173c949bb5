package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/adaptertest"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func TestAdapter(t *testing.T) { adaptertest.Run(t, connect) }

// connect makes a client and an engine on it.
func connect(t *testing.T, c adaptertest.Config, opts ...redislock.Option) *adaptertest.Connected {
	t.Helper()
	o := redis.ClientOption{
		InitAddress: c.Addrs, ForceSingleClient: !c.Cluster, Username: c.User, Password: c.Password,
		BlockingPoolSize: c.Pool, ConnWriteTimeout: c.ReadTimeout,
	}
	if c.Dial != nil {
		o.DialCtxFn = func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.Dial(addr)
		}
	}
	own, err := redis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	e := rueidis.New(own, opts...)
	t.Cleanup(own.Close)
	t.Cleanup(func() { _ = e.Close() })
	return &adaptertest.Connected{Engine: e, CloseClient: own.Close, Borrow: func(ctx context.Context, n int) error {
		done := make(chan error, n)
		for range n {
			go func() { // no server of the tests has so many replicas
				done <- own.Do(ctx, own.B().Arbitrary("WAIT", "9", "100").Blocking()).Error()
			}()
		}
		for range n {
			if err := <-done; err != nil {
				return err
			}
		}
		return nil
	}, Send: func(ctx context.Context, n int, words ...string) (err error) {
		for range n {
			d, release := own.Dedicate()
			defer release()
			call, stop := context.WithTimeout(ctx, 300*time.Millisecond)
			err = d.Do(call, d.B().Arbitrary(words...).Build()).Error()
			stop()
		}
		return err
	}}
}

// A client that is opened by URL has other timeouts and connections of its own kind.
func TestByURL(t *testing.T) {
	adaptertest.RunSilent(t, func(t *testing.T, c adaptertest.Config, opts ...redislock.Option) *adaptertest.Connected {
		t.Helper()
		query := ""
		if len(opts) > 0 {
			query = "?wait=1&wait-timeout=2s"
		}
		ctx := driver.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) { return c.Dial("") })
		e, err := open(ctx, "redis://"+c.Addrs[0]+query)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return &adaptertest.Connected{Engine: e, Borrow: func(context.Context, int) error { return nil }}
	})
}

// laws runs the suite of engines on one client.
func laws(t *testing.T, o redis.ClientOption, nodes []string, opts ...redislock.Option) {
	o.DisableCache = true
	c, err := redis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	adaptertest.Laws(t, "github.com/redis/rueidis.", nodes, func(opts ...redislock.Option) driver.Engine { return rueidis.New(c, opts...) }, opts...)
}

func single(s *testserver.Server) (redis.ClientOption, []string) {
	return redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}, []string{s.Addr()}
}

func TestLawsOnOneNode(t *testing.T) {
	o, nodes := single(testserver.Redis(t))
	laws(t, o, nodes)
}

func TestLawsWithReplicasWaitedFor(t *testing.T) {
	s := testserver.Redis(t)
	testserver.RedisReplica(t, s.Addr())
	o, nodes := single(s)
	laws(t, o, nodes, redislock.WithWait(1, 5*time.Second))
}

func TestLawsBehindSentinels(t *testing.T) {
	s := testserver.RedisSentinel(t)
	laws(t, redis.ClientOption{InitAddress: s.Addrs(), Sentinel: redis.SentinelOption{MasterSet: testserver.SentinelName}}, []string{s.Nodes[0].Addr()})
}

func TestLawsInACluster(t *testing.T) {
	s := testserver.RedisCluster(t)
	laws(t, redis.ClientOption{InitAddress: s.Addrs()}, s.Addrs())
}

func TestLawsOnValkey(t *testing.T) {
	o, nodes := single(testserver.Valkey(t))
	laws(t, o, nodes)
}

func TestLawsWithoutScripts(t *testing.T) {
	o, nodes := single(testserver.Valkey(t))
	laws(t, o, nodes, redislock.WithoutScripts())
}
