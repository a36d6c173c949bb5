package goredis

import (
	"context"
	"sync"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// DoManyThen uses that go-redis sends a pipeline on one connection, as Pipeline does. After
// one that had no answer in time, idle connections are probed first.
func (c *client) DoManyThen(ctx context.Context, calls []redisclient.Call, last redisclient.Call, out, lasts []redisclient.Answer) {
	if c.timedOut.Swap(false) {
		c.prober.probe(ctx)
	}
	defer func() {
		if ctx.Err() != nil {
			c.timedOut.Store(true)
		}
	}()
	moved := make([]int, len(calls))
	for i := range moved {
		moved[i] = i
	}
	for range 2 {
		moved = c.sendToNodes(ctx, calls, moved, last, out, lasts)
		if len(moved) == 0 {
			return
		}
		// The client follows the redirection of this call, and learns.
		_, _ = c.Do(ctx, redisclient.Command("EXISTS", calls[moved[0]].Keys[0]))
	}
}

// NodesOf asks the client, which knows the nodes of all slots.
func (c *client) NodesOf(ctx context.Context, calls []redisclient.Call) []string {
	cluster, ok := c.c.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	nodes := make([]string, len(calls))
	for i := range calls {
		if node, err := cluster.MasterForKey(ctx, calls[i].Keys[0]); err == nil { // else the call itself reports it
			nodes[i] = node.Options().Addr
		}
	}
	return nodes
}

// sendToNodes sends the calls with the given indexes to the nodes of their keys, and
// returns those that were redirected.
func (c *client) sendToNodes(ctx context.Context, calls []redisclient.Call, at []int, last redisclient.Call, out, lasts []redisclient.Answer) (moved []int) {
	byNode := map[*redis.Client][]int{}
	for _, i := range at {
		node, one := c.c.(*redis.Client)
		if !one {
			var err error
			if node, err = c.c.(*redis.ClusterClient).MasterForKey(ctx, calls[i].Keys[0]); err != nil {
				out[i].Err = serverError(err)
				continue
			}
		}
		byNode[node] = append(byNode[node], i)
	}
	var all sync.WaitGroup
	for node, group := range byNode {
		all.Go(func() { c.sendToNode(ctx, node, calls, group, last, out, lasts) })
	}
	all.Wait()
	for _, i := range at {
		if redisclient.Code(out[i].Err) == "MOVED" {
			moved = append(moved, i)
		}
	}
	return moved
}

func (c *client) sendToNode(ctx context.Context, node *redis.Client, calls []redisclient.Call, at []int, last redisclient.Call, out, lasts []redisclient.Answer) {
	group := make([]redisclient.Call, 0, len(at)+1)
	for _, i := range at {
		group = append(group, calls[i])
	}
	group = append(group, last)
	answers, err := c.pipelineOn(ctx, patient(node, group), group)
	mine, theirs := make([]redisclient.Answer, len(at)), make([]redisclient.Answer, len(at))
	redisclient.SplitLast(answers, err, mine, theirs)
	for k, i := range at {
		out[i], lasts[i] = mine[k], theirs[k]
	}
}
