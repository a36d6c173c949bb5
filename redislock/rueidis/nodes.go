package rueidis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

func (c *client) EachMaster(ctx context.Context, f func(do redisclient.Send) error) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for addr, n := range nodes {
		down := c.down(ctx, addr, n)
		err := f(func(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
			if down != nil {
				return redisclient.Reply{}, down
			}
			return c.send(ctx, n, &call)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// down returns why a node of a cluster does not answer. The client would repeat a call that
// only reads until ctx ends.
func (c *client) down(ctx context.Context, addr string, n redis.Client) error {
	switch {
	case n == nil:
		return fmt.Errorf("rueidis: node %s of the cluster is down, or not known yet", addr)
	case !c.Clustered():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	if _, err := c.send(ctx, n, &redisclient.Call{Name: "PING"}); err != nil && redisclient.Code(err) == "" {
		return fmt.Errorf("rueidis: node %s of the cluster does not answer: %v", addr, err) // it may be the end of this ctx
	}
	return nil
}

// masters returns the nodes that serve slots by their addresses, as a node that answers
// knows them; nil for one that the client has dropped because it is down.
func (c *client) masters(ctx context.Context) (map[string]redis.Client, error) {
	if !c.Clustered() {
		return map[string]redis.Client{"": c.c}, nil
	}
	asked, ranges, err := c.slotRanges(ctx)
	if err != nil {
		return nil, err
	}
	nodes, all := c.c.Nodes(), map[string]redis.Client{}
	for _, r := range ranges {
		master := endpoint(asked, r.Array[2].Array)
		all[master] = nodes[master]
	}
	return all, nil
}

// asked is how many nodes of a cluster are asked at a time.
const asked = 3

// slotRanges returns the replies of CLUSTER SLOTS that name a master, and the address of
// the node that answered first.
func (c *client) slotRanges(ctx context.Context) (addr string, ranges []redisclient.Reply, err error) {
	nodes := c.c.Nodes()
	last := errors.New("rueidis: no node of the cluster is known")
	for some := range slices.Chunk(slices.Collect(maps.Keys(nodes)), asked) {
		type answer struct {
			addr string
			redisclient.Answer
		}
		answers := make(chan answer, len(some))
		limited, cancel := context.WithTimeout(ctx, nodeTimeout)
		defer cancel()
		for _, addr := range some {
			c.tasks.Go(func() { // ends by nodeTimeout, and with this call
				r, err := c.send(limited, nodes[addr], &redisclient.Call{Name: "CLUSTER", Args: []string{"SLOTS"}})
				answers <- answer{addr, redisclient.Answer{Reply: r, Err: err}}
			})
		}
		for range some {
			a := <-answers
			if ctx.Err() != nil {
				return "", nil, ctx.Err()
			}
			if errors.Is(a.Err, redisclient.ErrClosed) {
				return "", nil, a.Err
			}
			if a.Err != nil {
				last = errors.New(a.Err.Error()) // it may be the end of limited
				continue
			}
			ranges = slices.DeleteFunc(a.Array, func(s redisclient.Reply) bool {
				return len(s.Array) < 3 || len(s.Array[2].Array) < 2
			})
			if len(ranges) > 0 {
				return a.addr, ranges, nil
			}
		}
	}
	return "", nil, last
}

// nodeTimeout is how long a node may take to answer a question about the cluster.
const nodeTimeout = 2 * time.Second

// endpoint returns the address of a node as the client has it: a node without a name of its
// own is reached where the one that was asked is.
func endpoint(asked string, node []redisclient.Reply) string {
	host := node[0].Text
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, strconv.FormatInt(node[1].Int, 10))
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
