package redislock_test

import (
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// recheck sets how often the server's eviction policy is read.
func recheck(every time.Duration) redislock.Option {
	return func(o *redisengine.Options) { o.EvictionRecheck = every }
}

// A server whose policy is changed to evict keys grants nothing new; existing holds are
// kept.
func TestAChangeOfTheEvictionPolicyIsNoticed(t *testing.T) {
	t.Parallel()
	const ttl = steady
	for about, opts := range map[string][]redislock.Option{"refused": nil, "allowed": {redislock.WithEvictionAllowed()}} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t, "--maxmemory", "100mb")
			at := newConsole(t, s.Addr())
			own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(own.Close)
			e := rueidis.New(own, append(opts, recheck(ttl/10))...)
			c := pawl.New(e, pawl.WithTTL(ttl))
			t.Cleanup(func() { _ = c.Close(); _ = e.Close() })
			l := lock(t, c.Mutex("held"))
			at.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			try := func() error {
				l, err := c.Mutex("other").TryLock(t.Context())
				if err == nil {
					err = l.Unlock()
				}
				return err
			}
			if about == "allowed" {
				outlast(ttl)
				if err := try(); err != nil {
					t.Errorf("allowed: %v", err)
				}
			} else {
				until(t, 5*ttl, "refused", func() bool {
					err := try()
					return err != nil && strings.Contains(err.Error(), "noeviction")
				})
				outlast(ttl)
			}
			if err := l.Err(); err != nil {
				t.Errorf("the hold is over: %v", err)
			}
			unlock(t, l)
			at.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			until(t, 5*ttl, "granted again", func() bool { return try() == nil })
		})
	}
}
