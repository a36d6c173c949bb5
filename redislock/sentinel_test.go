package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

func sentinelURL(s *testserver.Sentinel) string {
	return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + testserver.SentinelName
}

// onFailoverClient opens a client of go-redis that is connected to the first sentinel.
func onFailoverClient(t *testing.T, s *testserver.Sentinel, o goredisclient.FailoverOptions, ttl time.Duration, with ...redislock.Option) *pawl.Client {
	t.Helper()
	o.MasterName, o.SentinelAddrs = testserver.SentinelName, s.Addrs()[:1] // it learns of the others
	c := goredisclient.NewFailoverClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	p := pawl.New(goredis.New(c, with...), pawl.WithTTL(ttl))
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// The sentinel that a client is connected to hangs, its connection stays open, and the
// master dies. The client must ask another sentinel for the new master by itself.
func TestASentinelThatHangsDoesNotStrandItsClients(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for library, client := range map[string]func(t *testing.T, s *testserver.Sentinel) *pawl.Client{
		"rueidis": func(t *testing.T, s *testserver.Sentinel) *pawl.Client {
			return open(t, sentinelURL(s), pawl.WithTTL(ttl))
		},
		"go-redis": func(t *testing.T, s *testserver.Sentinel) *pawl.Client {
			return onFailoverClient(t, s, goredisclient.FailoverOptions{}, ttl)
		},
		"go-redis that does not repeat": func(t *testing.T, s *testserver.Sentinel) *pawl.Client {
			return onFailoverClient(t, s, goredisclient.FailoverOptions{MaxRetries: -1, ReadTimeout: time.Second}, ttl)
		},
	} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := testserver.RedisSentinel(t)
			p := client(t, s)
			unlock(t, lock(t, p.Mutex("name")))
			master := s.AwaitMaster()
			s.Sentinels[0].Pause()
			t.Cleanup(s.Sentinels[0].Resume)
			master.Kill()
			w := startWatch()
			defer w.end()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			l, err := p.Mutex("name").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			took := w.spent()
			t.Logf("after %v", took)
			if took > 40*time.Second {
				t.Errorf("a new master was found after %v", took)
			}
			unlock(t, l)
		})
	}
}
