package rueidis

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A slotNodes knows which node of a cluster serves a slot, as the cluster has told once,
// and redirections since. The client library knows it too, and does not say. A call that
// goes elsewhere is redirected, so what is wrong here costs time only.
type slotNodes struct {
	mu    sync.Mutex // guards what follows
	nodes []string   // by slot; none: nothing is known
	next  time.Time  // when to ask again
}

// slots is the number of slots of a cluster.
const slots = 1 << 14

// slotsRecheck is how often a cluster is asked for its slots; slotsRetry, if none has answered.
const (
	slotsRecheck = 30 * time.Second
	slotsRetry   = time.Second
)

func (n *slotNodes) of(slot int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slot >= len(n.nodes) {
		return ""
	}
	return n.nodes[slot]
}

// set notes the node of a slot; "" says that it is not known.
func (n *slotNodes) set(slot int, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes == nil {
		n.nodes = make([]string, slots)
	}
	n.nodes[slot] = node
}

// due reports whether the cluster is to be asked, to one caller.
func (n *slotNodes) due() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Before(n.next) {
		return false
	}
	n.next = now.Add(slotsRetry)
	return true
}

// read takes in what the node at addr has told.
func (n *slotNodes) read(addr string, ranges []redisclient.Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes, n.next = make([]string, slots), time.Now().Add(slotsRecheck)
	for _, r := range ranges {
		node := endpoint(addr, r.Array[2].Array)
		for slot := max(r.Array[0].Int, 0); slot <= min(r.Array[1].Int, slots-1); slot++ {
			n.nodes[slot] = node
		}
	}
}

// NodesOf asks the cluster from time to time, which takes at most a quarter of what is
// left of ctx.
func (c *client) NodesOf(ctx context.Context, calls []redisclient.Call) []string {
	if !c.Clustered() {
		return nil
	}
	if c.slots.due() {
		c.readSlots(ctx)
	}
	nodes := make([]string, len(calls))
	for i := range calls {
		nodes[i] = c.slots.of(slotOf(&calls[i], c.c.B()))
	}
	return nodes
}

func (c *client) readSlots(ctx context.Context) {
	limit := nodeTimeout
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)/4)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if addr, ranges, err := c.slotRanges(ctx); err == nil { // else what was known may still be true
		c.slots.read(addr, ranges)
	}
}
