package redisbench

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/bench/compare"
)

// compareAndDelete is the release of the plain recipe.
const compareAndDelete = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// errTaken is what the bare commands return where a lock would wait.
var errTaken = errors.New("the key is taken")

// bareRueidis is the plain recipe alone: no waiting, no renewal.
type bareRueidis struct {
	client rueidis.Client
	script *rueidis.Lua
}

func openBareRueidis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client, err := newRueidis(addr)
		return &bareRueidis{client, rueidis.NewLuaScript(compareAndDelete)}, err
	}
}

func newRueidis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
}

func (b *bareRueidis) Close() error { b.client.Close(); return nil }

func (b *bareRueidis) Lock(ctx context.Context, name string) (func() error, error) {
	key, value := "bare:"+name, rand.Text()
	err := b.client.Do(ctx, b.client.B().Set().Key(key).Value(value).Nx().Px(ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		err = errTaken
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		deleted, err := b.script.Exec(context.Background(), b.client, []string{key}, []string{value}).AsInt64()
		return expectOne(deleted, err)
	}, nil
}

// bareGoRedis is the same with the other client.
type bareGoRedis struct {
	client *goredis.Client
	script *goredis.Script
}

func openBareGoRedis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		return &bareGoRedis{newGoRedis(addr), goredis.NewScript(compareAndDelete)}, nil
	}
}

func newGoRedis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})
}

func (b *bareGoRedis) Close() error { return b.client.Close() }

func (b *bareGoRedis) Lock(ctx context.Context, name string) (func() error, error) {
	key, value := "bare:"+name, rand.Text()
	err := b.client.SetArgs(ctx, key, value, goredis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, goredis.Nil) {
		err = errTaken
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		deleted, err := b.script.Run(context.Background(), b.client, []string{key}, value).Int64()
		return expectOne(deleted, err)
	}, nil
}

func expectOne(deleted int64, err error) error {
	if err == nil && deleted != 1 {
		err = errors.New("the key was not ours any more")
	}
	return err
}

const ttl = 10 * time.Second // the same for all contenders
