package rueidis

import (
	"context"
	"errors"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

func (c *client) EachMaster(ctx context.Context, f func(do redisclient.Send) error) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := f(func(call redisclient.Call) (redisclient.Reply, error) { return c.send(ctx, n, &call) }); err != nil {
			return err
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
		info, err := c.send(ctx, n, &redisclient.Call{Name: "INFO", Args: []string{"replication"}})
		if err != nil {
			if last = err; ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // another node serves its slots by now, or none
		}
		if strings.Contains(info.Text, "role:master") {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, last
	}
	return all, nil
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
