package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"testing"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
	pawlgoredis "github.com/pawl-go/pawl/redislock/goredis"
	pawlrueidis "github.com/pawl-go/pawl/redislock/rueidis"
)

// dial returns a separate client, as another process would have.
func dial(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// pawlClient is pawl, alternating between the two adapters, with the same key as
// the others.
func pawlClient(t *testing.T, addr string, i int) client {
	t.Helper()
	var engine driver.Engine
	kind := "pawl rueidis"
	if i%2 == 0 {
		rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rdb.Close)
		engine = pawlrueidis.New(rdb, redislock.WithPrefix(""))
	} else {
		kind = "pawl go-redis"
		engine = pawlgoredis.New(dial(t, addr), redislock.WithPrefix(""))
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("%s: close: %v", kind, err)
		}
	})
	p := pawl.New(engine, pawl.WithTTL(ttl))
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%s: close: %v", kind, err)
		}
	})
	return client{
		name: name(kind, i),
		rest: 100 * time.Millisecond,
		lock: func(ctx context.Context) (func() error, error) {
			lease, err := p.Mutex(key).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return lease.Unlock, nil
		},
	}
}

func redsyncClient(t *testing.T, addr string, i int) client {
	t.Helper()
	sync := redsync.New(pool.NewPool(dial(t, addr)))
	return client{
		name: name("redsync", i),
		rest: 10 * time.Millisecond,
		lock: func(ctx context.Context) (func() error, error) {
			mutex := sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
			if err := mutex.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error {
				ok, err := mutex.UnlockContext(context.Background())
				if err == nil && !ok {
					err = errors.New("not ours any more")
				}
				return err
			}, nil
		},
	}
}

func redislockClient(t *testing.T, addr string, i int) client {
	t.Helper()
	lock := bsm.New(dial(t, addr))
	return client{
		name: name("redislock", i),
		rest: 10 * time.Millisecond,
		lock: func(ctx context.Context) (func() error, error) {
			held, err := lock.Obtain(ctx, key, ttl, &bsm.Options{RetryStrategy: bsm.LinearBackoff(20 * time.Millisecond)})
			if err != nil {
				return nil, err
			}
			return func() error { return held.Release(context.Background()) }, nil
		},
	}
}

// bareClient is the recipe by hand, as in somebody's script.
func bareClient(t *testing.T, addr string, i int) client {
	t.Helper()
	rdb := dial(t, addr)
	release := goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return client{
		name: name("bare", i),
		rest: 10 * time.Millisecond,
		lock: func(ctx context.Context) (func() error, error) {
			value := rand.Text()
			for {
				err := rdb.SetArgs(ctx, key, value, goredis.SetArgs{Mode: "NX", TTL: ttl}).Err()
				if err == nil {
					break
				}
				if !errors.Is(err, goredis.Nil) {
					return nil, err
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(mathrand.N(20 * time.Millisecond)): // it can only poll
				}
			}
			return func() error {
				n, err := release.Run(context.Background(), rdb, []string{key}, value).Int64()
				if err == nil && n != 1 {
					err = errors.New("not ours any more")
				}
				return err
			}, nil
		},
	}
}
