package goredis

import (
	"context"
	"strings"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/redislock"
)

// eachMaster calls fn for every node that takes writes, one at a time.
func (c *client) eachMaster(ctx context.Context, fn func(redis.UniversalClient) error) error {
	if err := c.supported(); err != nil {
		return err
	}
	cluster, ok := c.c.(*redis.ClusterClient)
	if !ok {
		return fn(c.c)
	}
	var mu sync.Mutex // ForEachMaster calls concurrently
	return cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return fn(node)
	})
}

func (c *client) All(ctx context.Context, words []string) (out []redislock.Answer, err error) {
	err = c.eachMaster(ctx, func(n redis.UniversalClient) error {
		one := make([]redislock.Answer, 1)
		c.pipe(ctx, n, [][]string{words}, one)
		out = append(out, one...)
		return nil
	})
	return out, err
}

// scanCount is how many keys the server looks at in one step.
const scanCount = 2000

func (c *client) Scan(ctx context.Context, pattern string, page func([]string) error) error {
	return c.eachMaster(ctx, func(n redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			var keys []string
			var err error
			if !c.within(ctx, func() { keys, cursor, err = n.Scan(ctx, cursor, pattern, scanCount).Result() }) {
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			if err := page(keys); err != nil {
				return err
			}
			if cursor == 0 {
				return nil
			}
		}
	})
}

// silence is how long a subscription may be silent before it is asked for a sign
// of life, and how long that may take.
const silence = 2 * time.Second

// Listen has a connection of its own. go-redis would subscribe again by itself on
// the next Receive, but then nobody would learn that something may be missing.
func (c *client) Listen(ctx context.Context, channel string, up func(), got func(string)) error {
	if err := c.supported(); err != nil {
		return err
	}
	var sub *redis.PubSub
	if c.Clustered() {
		sub = c.c.SSubscribe(ctx, channel)
	} else {
		sub = c.c.Subscribe(ctx, channel)
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // ends a Receive that reads
	asked := false
	for {
		m, err := sub.ReceiveTimeout(ctx, silence)
		switch m := m.(type) {
		case *redis.Subscription:
			if strings.HasSuffix(m.Kind, "unsubscribe") {
				return errMoved
			}
			up()
		case *redis.Message:
			got(m.Payload)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			asked = false
		case timedOut(err) && !asked:
			if err := sub.Ping(ctx); err != nil {
				return plain(err)
			}
			asked = true
		default:
			return plain(err)
		}
	}
}
