package rueidis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

var errUnknownNode = errors.New("rueidis: the cluster has named a node that the client does not know yet")

// DoManyThen uses one connection for each node, as Pipeline does. The client library does
// not say which node of a cluster serves a slot: a redirection does, once for each slot.
func (c *client) DoManyThen(ctx context.Context, calls []redisclient.Call, last redisclient.Call, out, lasts []redisclient.Answer) {
	if !c.Clustered() {
		answers, err := c.Pipeline(ctx, append(slices.Clone(calls), last))
		redisclient.SplitLast(answers, err, out, lasts)
		return
	}
	moved := make([]int, len(calls))
	for i := range moved {
		moved[i] = i
	}
	for range 2 {
		moved = c.sendToNodes(ctx, calls, moved, last, out, lasts)
	}
}

// sendToNodes sends the calls with the given indexes to the nodes of their slots, and
// returns those that were redirected.
func (c *client) sendToNodes(ctx context.Context, calls []redisclient.Call, at []int, last redisclient.Call, out, lasts []redisclient.Answer) (moved []int) {
	nodes := c.c.Nodes()
	anyNode := ""
	for anyNode = range nodes {
		break
	}
	slots, byNode := make(map[int]int, len(at)), map[string][]int{}
	for _, i := range at {
		slots[i] = slotOf(&calls[i], c.c.B())
		addr := cmp.Or(c.slots.of(slots[i]), anyNode)
		byNode[addr] = append(byNode[addr], i)
	}
	var all sync.WaitGroup
	for addr, group := range byNode {
		all.Go(func() { c.sendToNode(ctx, nodes[addr], calls, group, last, out, lasts) })
	}
	all.Wait()
	for _, i := range at {
		switch {
		case redisclient.Code(out[i].Err) == "MOVED":
			words := strings.Fields(out[i].Err.Error()) // MOVED <slot> <address>
			c.slots.set(slots[i], words[len(words)-1])
			moved = append(moved, i)
		case out[i].Err != nil && redisclient.Code(out[i].Err) == "": // another node may have replaced it
			c.slots.set(slots[i], "")
		}
	}
	return moved
}

func (c *client) sendToNode(ctx context.Context, node redis.Client, calls []redisclient.Call, at []int, last redisclient.Call, out, lasts []redisclient.Answer) {
	group := make([]redisclient.Call, len(at))
	for k, i := range at {
		group[k] = calls[i]
	}
	take := func(context.Context) (dedicated, error) {
		if node == nil {
			return dedicated{}, errUnknownNode
		}
		d, release := node.Dedicate()
		return dedicated{DedicatedClient: d, release: release}, nil
	}
	answers, err := c.pipelineOn(ctx, take, append(group, last))
	mine, theirs := make([]redisclient.Answer, len(at)), make([]redisclient.Answer, len(at))
	redisclient.SplitLast(answers, err, mine, theirs)
	for k, i := range at {
		out[i], lasts[i] = mine[k], theirs[k]
	}
	if errors.Is(err, errUnknownNode) { // the client follows the redirection of this call, and learns
		_, _ = c.Do(ctx, redisclient.Command("EXISTS", group[0].Keys[0]))
	}
}
