package rueidis

import (
	"context"
	"errors"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

func (c *client) DoMasters(ctx context.Context, call redisclient.Call) ([]redisclient.Answer, error) {
	nodes, err := c.masters(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]redisclient.Answer, len(nodes))
	for i, n := range nodes {
		out[i].Reply, out[i].Err = result(doNode(ctx, n, func() redis.Completed { return build(n.B(), &call) }))
	}
	return out, nil
}

// scanCount is the number of keys that the server looks at in one step.
const scanCount = 2000

func (c *client) Scan(ctx context.Context, pattern string, page func([]string) error) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		for cursor := uint64(0); ; {
			r := doNode(ctx, n, func() redis.Completed {
				return n.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()
			})
			if _, err := result(r); err != nil {
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

// masters returns the nodes that accept writes.
func (c *client) masters(ctx context.Context) ([]redis.Client, error) {
	if !c.Clustered() {
		return []redis.Client{c.c}, nil
	}
	var all []redis.Client
	last := errors.New("rueidis: no node of the cluster is a master")
	for _, n := range c.c.Nodes() {
		info, err := doNode(ctx, n, func() redis.Completed { return n.B().Info().Section("replication").Build() }).ToString()
		if err != nil {
			if last = err; ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // another node serves its slots by now, or none
		}
		if strings.Contains(info, "role:master") {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, serverError(last)
	}
	return all, nil
}

// doNode sends a command to a node, again if it was not sent.
func doNode(ctx context.Context, n redis.Client, build func() redis.Completed) redis.RedisResult {
	for began := time.Now(); ; {
		r := n.Do(withoutDeadline(ctx), build())
		if again, _ := unsent(ctx, began, r.NonRedisError()); !again {
			return r
		}
	}
}

const unsubscribeTimeout = time.Second

// Subscribe uses a connection that it shares with commands: replies and messages come
// in the order in which the server sent them.
func (c *client) Subscribe(ctx context.Context, channel string, established func(), received func(string)) error {
	subscribe := func() redis.Completed {
		if c.Clustered() {
			return c.c.B().Ssubscribe().Channel(channel).Build()
		}
		return c.c.B().Subscribe().Channel(channel).Build()
	}
	hooked := redis.WithOnSubscriptionHook(ctx, func(s redis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			established()
		}
	})
	hooked = redis.WithOnReceiveReturnHook(hooked, func(err error, on redis.CommandClient) error {
		if ctx.Err() != nil { // the connection lives on
			c.unsubscribe(ctx, on, channel)
		}
		return err
	})
	onMessage := func(m redis.PubSubMessage) { received(m.Message) }
	err := c.c.Receive(hooked, subscribe(), onMessage)
	if e, ok := redis.IsRedisErr(err); ok {
		// The client follows no redirection here, and learns only after a second where
		// the slot is.
		if addr, ok := e.IsMoved(); ok && c.c.Nodes()[addr] != nil {
			err = c.c.Nodes()[addr].Receive(hooked, subscribe(), onMessage)
		}
	}
	return serverError(err)
}

func (c *client) unsubscribe(ctx context.Context, on redis.CommandClient, channel string) {
	cmd := on.B().Unsubscribe().Channel(channel).Build()
	if c.Clustered() {
		cmd = on.B().Sunsubscribe().Channel(channel).Build()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
	defer cancel()
	_ = on.Do(withoutDeadline(ctx), cmd).Error() // a subscription that nothing receives costs a message now and then
}
