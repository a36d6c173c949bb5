package rueidis

import (
	"context"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock"
)

// masters are the nodes that take writes.
func (c *client) masters(ctx context.Context) ([]redis.Client, error) {
	if !c.Clustered() {
		return []redis.Client{c.c}, nil
	}
	var all []redis.Client
	var last error
	for _, n := range c.c.Nodes() {
		info, err := ask(ctx, n, func() redis.Completed { return n.B().Info().Section("replication").Build() }).ToString()
		if err != nil {
			if last = err; ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // its slots are another's by now, or nobody's
		}
		if strings.Contains(info, "role:master") {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		_, err := answer(redis.NewErrorResult(last))
		return nil, err
	}
	return all, nil
}

// ask sends a command to a node, again if it was not sent.
func ask(ctx context.Context, n redis.Client, build func() redis.Completed) redis.RedisResult {
	for begun := time.Now(); ; {
		r := n.Do(undate(ctx), build())
		if again, _ := unsent(ctx, begun, r.NonRedisError()); !again {
			return r
		}
	}
}

func (c *client) All(ctx context.Context, words []string) ([]redislock.Answer, error) {
	nodes, err := c.masters(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]redislock.Answer, len(nodes))
	for i, n := range nodes {
		out[i].Reply, out[i].Err = answer(ask(ctx, n, func() redis.Completed { return n.B().Arbitrary(words...).Build() }))
	}
	return out, nil
}

// scanCount is how many keys the server looks at in one step.
const scanCount = 2000

func (c *client) Scan(ctx context.Context, pattern string, page func([]string) error) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		for cursor := uint64(0); ; {
			r := ask(ctx, n, func() redis.Completed {
				return n.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()
			})
			if _, err := answer(r); err != nil {
				return err
			}
			step, err := r.AsScanEntry()
			if err != nil {
				return err
			}
			if err := page(step.Elements); err != nil {
				return err
			}
			if cursor = step.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// Listen uses a connection that it shares with commands: they and the messages
// come in the order the server sent them.
func (c *client) Listen(ctx context.Context, channel string, up func(), got func(string)) error {
	subscribe := func() redis.Completed {
		if c.Clustered() {
			return c.c.B().Ssubscribe().Channel(channel).Build()
		}
		return c.c.B().Subscribe().Channel(channel).Build()
	}
	hooked := redis.WithOnSubscriptionHook(ctx, func(s redis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			up()
		}
	})
	hooked = redis.WithOnReceiveReturnHook(hooked, func(err error, on redis.CommandClient) error {
		if ctx.Err() != nil { // it is over, and the connection lives on
			ub := on.B().Unsubscribe().Channel(channel).Build()
			if c.Clustered() {
				ub = on.B().Sunsubscribe().Channel(channel).Build()
			}
			quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeLimit)
			defer cancel()
			_ = on.Do(undate(quick), ub).Error() // a subscription nobody hears costs a message now and then
		}
		return err
	})
	heard := func(m redis.PubSubMessage) { got(m.Message) }
	err := c.c.Receive(hooked, subscribe(), heard)
	if e, ok := redis.IsRedisErr(err); ok {
		// The client follows no redirection here, and learns only after a second where
		// the slot is.
		if addr, ok := e.IsMoved(); ok && c.c.Nodes()[addr] != nil {
			err = c.c.Nodes()[addr].Receive(hooked, subscribe(), heard)
		}
	}
	if e, ok := redis.IsRedisErr(err); ok {
		return redislock.ServerError(e.Error())
	}
	return err
}
