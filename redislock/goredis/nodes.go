package goredis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

func (c *client) EachMaster(ctx context.Context, f func(do redisclient.Send) error) error {
	cluster, ok := c.c.(*redis.ClusterClient)
	if !ok {
		return f(c.sender(c.c))
	}
	var mu sync.Mutex // ForEachMaster calls concurrently
	return serverError(cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return f(c.sender(node))
	}))
}

// sender sends single calls to a node.
func (c *client) sender(node pipeliner) redisclient.Send {
	return func(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
		out := make([]redisclient.Answer, 1)
		c.pipeline(ctx, node, []redisclient.Call{call}, out, silentAfter)
		return out[0].Reply, out[0].Err
	}
}

// silence is how long a subscription may be silent before it is sent a PING, and how
// long the answer may take.
const silence = 2 * time.Second

// errMoved says that the server has ended a subscription, since another node serves its
// slot now.
var errMoved = errors.New("goredis: the channel's slot has moved")

// Subscribe has a connection of its own. go-redis would subscribe again by itself on the
// next Receive, but then the gap would not be reported.
func (c *client) Subscribe(ctx context.Context, channel string, established func(), received func(string)) error {
	var sub *redis.PubSub
	if c.Clustered() {
		sub = c.c.SSubscribe(ctx, channel)
	} else {
		sub = c.c.Subscribe(ctx, channel)
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // ends a Receive that reads
	pinged := false
	for {
		m, err := sub.ReceiveTimeout(ctx, silence)
		switch m := m.(type) {
		case *redis.Subscription:
			if strings.HasSuffix(m.Kind, "unsubscribe") {
				return errMoved
			}
			established()
		case *redis.Message:
			received(m.Payload)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			pinged = false
		case timedOut(err) && !pinged:
			if err := sub.Ping(ctx); err != nil {
				return serverError(err)
			}
			pinged = true
		default:
			return serverError(err)
		}
	}
}

func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
