package goredis

import (
	"context"
	"sync/atomic"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// client implements redisclient.Client.
type client struct {
	c         redis.UniversalClient
	pool      *driverkit.Pool // of calls, which may go on after their ctx has ended
	prober    *prober
	batcher   *batcher // nil: calls are for more than one server
	sentinels *sentinels
	timedOut  atomic.Bool // the last DoManyThen had no answer in time
}

// idleWorkers is the number of goroutines kept for calls.
const idleWorkers = 128

func newClient(c redis.UniversalClient) *client {
	cl := &client{c: c, pool: driverkit.NewPool(idleWorkers)}
	cl.sentinels = newSentinels(c, cl.pool)
	cl.prober = &prober{c: c, pool: cl.pool}
	if one, ok := c.(*redis.Client); ok {
		cl.batcher = newBatcher(one, cl.pool, cl.prober)
	}
	return cl
}

func (c *client) Clustered() bool {
	_, ok := c.c.(*redis.ClusterClient)
	return ok
}

// Close waits for calls that were given up; the client's own timeouts end them.
func (c *client) Close() error {
	c.pool.Close()
	return nil
}

func (c *client) Do(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	if c.batcher != nil {
		r, err := c.batcher.do(ctx, call)
		if err != nil && redisclient.Code(err) == "" {
			c.sentinels.unanswered()
		}
		return r, err
	}
	cmd := encode(ctx, &call)
	if err := c.within(ctx, silentAfter, func() { _ = c.c.Process(withoutDone{ctx}, cmd) }); err != nil {
		return redisclient.Reply{}, err
	}
	return result(cmd)
}

func (c *client) DoMany(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	c.pipeline(ctx, c.c, calls, out, 0) // it may take the server long
}

// Probed returns DoMany after idle connections were probed, or while they are: those in
// use by a probe are not lent.
func (c *client) Probed(ctx context.Context) (send redisclient.Many, release func(), err error) {
	c.prober.probe(ctx)
	return c.DoMany, func() {}, ctx.Err()
}

// Pipeline uses that go-redis sends a pipeline on one connection. In a cluster it goes
// to the node of the key: a pipeline of the cluster client could be split by a
// redirection, and WAIT be answered by another node than the one that granted.
func (c *client) Pipeline(ctx context.Context, calls []redisclient.Call) ([]redisclient.Answer, error) {
	cluster, clustered := c.c.(*redis.ClusterClient)
	if !clustered {
		return c.pipelineOn(ctx, patient(c.c.(*redis.Client), calls), calls)
	}
	return redisclient.FollowMove(ctx, c, calls, func() ([]redisclient.Answer, error) {
		node, err := cluster.MasterForKey(ctx, calls[0].Keys[0])
		if err != nil {
			return nil, serverError(err)
		}
		return c.pipelineOn(ctx, patient(node, calls), calls)
	})
}

// patient returns c with a read timeout that allows for a last call that blocks.
func patient(c *redis.Client, calls []redisclient.Call) pipeliner {
	timeout := c.Options().ReadTimeout
	if blocks := calls[len(calls)-1].Blocks; blocks > 0 && timeout > 0 {
		return c.WithTimeout(timeout + blocks)
	}
	return c
}

// A pipeliner is a client, or one node of a cluster.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// pipelineOn sends a pipeline, and fails unless every call has a reply. Another node may
// have replaced one that does not reply: a cluster client asks for that only by itself.
func (c *client) pipelineOn(ctx context.Context, on pipeliner, calls []redisclient.Call) ([]redisclient.Answer, error) {
	out := make([]redisclient.Answer, len(calls))
	c.pipeline(ctx, on, calls, out, silentAfter+calls[len(calls)-1].Blocks)
	for _, a := range out {
		if a.Err != nil && redisclient.Code(a.Err) == "" {
			if cluster, ok := c.c.(*redis.ClusterClient); ok {
				cluster.ReloadState(ctx)
			}
			return nil, a.Err
		}
	}
	return out, nil
}

// pipeline sends calls in one pipeline and answers each. From silent on, if that is not 0,
// other connections are probed.
func (c *client) pipeline(ctx context.Context, on pipeliner, calls []redisclient.Call, out []redisclient.Answer, silent time.Duration) {
	p, cmds := queue(ctx, on, calls)
	if err := c.within(ctx, silent, func() { _, _ = p.Exec(withoutDone{ctx}) }); err != nil {
		for i := range out {
			out[i].Err = err
		}
		c.sentinels.unanswered()
		return
	}
	results(cmds, out)
	if out[0].Err != nil && redisclient.Code(out[0].Err) == "" {
		c.sentinels.unanswered()
	}
}

// within runs call and returns when ctx ends, which go-redis by itself does not notice
// while it reads; see await. An error says that call goes on.
func (c *client) within(ctx context.Context, silent time.Duration, call func()) error {
	done := make(chan struct{})
	c.pool.Do(func() { // ends by the client's timeouts; Close waits for it
		defer close(done)
		call()
	})
	return await(ctx, done, func() {}, silent, c.prober)
}
