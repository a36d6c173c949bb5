package redisbench

import (
	"context"
	"errors"
	"math"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/pawl-go/pawl/bench/compare"
)

// redsyncPeer waits as redsync does by default, 50 to 250 ms between attempts, but
// without its limit of 32 attempts.
type redsyncPeer struct {
	client *goredis.Client
	sync   *redsync.Redsync
}

func openRedsync(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client := newGoRedis(addr)
		return &redsyncPeer{client, redsync.New(pool.NewPool(client))}, nil
	}
}

func (r *redsyncPeer) Close() error { return r.client.Close() }

func (r *redsyncPeer) Lock(ctx context.Context, name string) (func() error, error) {
	mutex := r.sync.NewMutex("redsync:"+name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ok, err := mutex.UnlockContext(context.Background())
		if err == nil && !ok {
			err = errors.New("the key was not ours any more")
		}
		return err
	}, nil
}

// bsmPeer does not wait by default; its user chooses how.
type bsmPeer struct {
	client *goredis.Client
	lock   *bsm.Client
	retry  bsm.RetryStrategy
}

func openBsm(addr string, every time.Duration) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client := newGoRedis(addr)
		return &bsmPeer{client, bsm.New(client), bsm.LinearBackoff(every)}, nil
	}
}

func (b *bsmPeer) Close() error { return b.client.Close() }

func (b *bsmPeer) Lock(ctx context.Context, name string) (func() error, error) {
	lock, err := b.lock.Obtain(ctx, "redislock:"+name, ttl, &bsm.Options{RetryStrategy: b.retry})
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(context.Background()) }, nil
}

// rueidislockPeer uses the settings of its own benchmark, with one key instead of
// three.
type rueidislockPeer struct{ locker rueidislock.Locker }

func openRueidislock(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
			KeyValidity:    ttl,
			KeyMajority:    1,
			NoLoopTracking: true,
			TryNextAfter:   time.Second, // its 20 ms are too short for 128 goroutines
		})
		return &rueidislockPeer{locker}, err
	}
}

func (r *rueidislockPeer) Close() error { r.locker.Close(); return nil }

func (r *rueidislockPeer) Lock(ctx context.Context, name string) (func() error, error) {
	_, cancel, err := r.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { cancel(); return nil }, nil
}
