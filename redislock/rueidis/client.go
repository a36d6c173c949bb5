package rueidis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// client implements redisclient.Client.
type client struct {
	c         redis.Client
	owned     bool        // closed with the engine
	pipelines []*pipeline // none where there is more than one server
	dedicated dedicatedPool
	slotNodes sync.Map // in a cluster: the address of the node of a slot, as a redirection has named it

	tasks *sync.WaitGroup // calls that went on after their ctx had ended, and the pipelines'; Close waits for them
}

func newClient(c redis.Client, owned bool) *client {
	cl := &client{c: c, owned: owned, tasks: &sync.WaitGroup{}}
	cl.dedicated.c, cl.dedicated.tasks = c, cl.tasks
	if c.Mode() == redis.ClientModeStandalone {
		cl.pipelines = []*pipeline{newPipeline(c, cl.tasks), newPipeline(c, cl.tasks)}
	}
	return cl
}

func (c *client) Clustered() bool { return c.c.Mode() == redis.ClientModeCluster }

func (c *client) Close() error {
	for _, p := range c.pipelines {
		p.end()
	}
	c.tasks.Wait()
	if c.owned {
		c.c.Close()
	}
	return nil
}

func (c *client) Do(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	if a, sent := doPipelined(ctx, c.pipelines, call); sent {
		return a.Reply, a.Err
	}
	return c.send(ctx, c.c, &call)
}

// send sends a call to a node, or by the whole client to the node of its key, again if it
// was not sent.
func (c *client) send(ctx context.Context, to redis.Client, call *redisclient.Call) (redisclient.Reply, error) {
	for began := time.Now(); ; {
		cmd := build(to.B(), call)
		res, err := within(ctx, c.tasks, func() redis.RedisResult { return to.Do(withoutDeadline(ctx), cmd) })
		if err != nil {
			return redisclient.Reply{}, err
		}
		r, err := result(res)
		again, err := unsent(ctx, began, err)
		if !again {
			return r, err
		}
	}
}

func (c *client) DoMany(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	at := make([]int, len(calls))
	for i := range at {
		at[i] = i
	}
	for began := time.Now(); len(calls) > 0; {
		var more []redisclient.Call
		var moreAt []int
		cmds := buildAll(c.c.B(), calls)
		all, err := within(ctx, c.tasks, func() []redis.RedisResult { return c.c.DoMulti(withoutDeadline(ctx), cmds...) })
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
			return
		}
		for i, res := range all {
			r, err := result(res)
			again, err := unsent(ctx, began, err)
			out[at[i]] = redisclient.Answer{Reply: r, Err: err}
			if again {
				more, moreAt = append(more, calls[i]), append(moreAt, at[i])
			}
		}
		calls, at = more, moreAt
	}
}

// DoManyFresh uses a connection that has just answered, and closes it: one that was kept
// for the next time could be dead by then. A cluster client has no dedicated connection
// that spans nodes; it drops those that do not answer its pings.
func (c *client) DoManyFresh(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	if c.Clustered() {
		c.DoMany(ctx, calls, out)
		return
	}
	answers := make([]redisclient.Answer, len(calls))
	ended, err := c.dedicated.use(ctx, c.dedicated.live, false, func(d redis.DedicatedClient) (failed error) {
		for i, r := range d.DoMulti(withoutDeadline(ctx), buildAll(d.B(), calls)...) {
			answers[i].Reply, answers[i].Err = result(r)
			failed = driver.Join(failed, r.NonRedisError())
		}
		return failed
	})
	if ended {
		copy(out, answers)
		return
	}
	for i := range out { // answers may still be written to
		out[i].Err = err
	}
}

// Pipeline has a connection to itself. The last call may block.
func (c *client) Pipeline(ctx context.Context, calls []redisclient.Call) ([]redisclient.Answer, error) {
	if c.Clustered() {
		return redisclient.FollowMove(ctx, c, calls, func() ([]redisclient.Answer, error) {
			return c.pipelineOn(ctx, c.dedicated.any, func(b redis.Builder) []redis.Completed { return buildAll(b, calls) })
		})
	}
	out, err := c.pipelineOn(ctx, c.dedicated.pick, func(b redis.Builder) []redis.Completed {
		last := len(calls) - 1
		return append(buildAll(b, calls[:last]), encode(b, &calls[last], true))
	})
	c.dedicated.used(err)
	return out, err
}

// pipelineOn sends commands on one connection, and fails unless all have a reply.
func (c *client) pipelineOn(ctx context.Context, take func(context.Context) (dedicated, error), commands func(redis.Builder) []redis.Completed) ([]redisclient.Answer, error) {
	var out []redisclient.Answer // may still be written to if use fails
	_, err := c.dedicated.use(ctx, take, true, func(d redis.DedicatedClient) error {
		for _, r := range d.DoMulti(withoutDeadline(ctx), commands(d.B())...) {
			if err := r.NonRedisError(); err != nil {
				return err
			}
			reply, err := result(r)
			out = append(out, redisclient.Answer{Reply: reply, Err: err})
		}
		return nil
	})
	if err != nil {
		_, err = unsent(ctx, time.Time{}, err)
		return nil, err
	}
	return out, nil
}
