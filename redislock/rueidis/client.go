package rueidis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// client implements redisclient.Client.
type client struct {
	c         redis.Client
	owned     bool        // closed with the engine
	pipelines []*pipeline // none where there is more than one server
	dedicated dedicatedPool
	slots     slotNodes     // of a cluster
	prober    *prober       // nil: a cluster, which has no connection that spans its nodes
	live      chan struct{} // has room for those that use doLive
	crowd     chan struct{} // has room for calls on the client's own connections that are not Ahead

	tasks *sync.WaitGroup // calls that went on after their ctx had ended, and the pipelines'; Close waits for them
}

func newClient(c redis.Client, owned bool) *client {
	cl := &client{c: c, owned: owned, tasks: &sync.WaitGroup{}, live: make(chan struct{}, maxLive), crowd: make(chan struct{}, maxCrowd)}
	cl.dedicated.c, cl.dedicated.tasks = c, cl.tasks
	if c.Mode() != redis.ClientModeCluster {
		cl.prober = &prober{tasks: cl.tasks, ask: cl.answers}
	}
	if c.Mode() == redis.ClientModeStandalone {
		cl.pipelines = []*pipeline{newPipeline(cl.keep, cl.prober, cl.tasks), newPipeline(cl.keep, cl.prober, cl.tasks)}
	}
	return cl
}

// keep returns a connection that a pipeline may keep. If the client is the program's, at
// least one more must be left to it: for its own blocking calls its pool may have been made
// small.
func (c *client) keep() (dedicated, error) {
	if !c.owned && !c.spare() {
		return dedicated{}, errNoSpare
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	d, err := c.dedicated.live(ctx)
	if err == nil && !c.owned && !c.spare() {
		d.release()
		return dedicated{}, errNoSpare
	}
	return d, err
}

// spare reports whether the client's pool lends a connection at once, or can make one.
func (c *client) spare() bool {
	ctx, cancel := context.WithTimeout(context.Background(), spareTimeout)
	defer cancel()
	return c.c.Do(ctx, c.c.B().Arbitrary("PING").Blocking()).NonRedisError() == nil
}

const (
	spareTimeout = time.Second
	maxLive      = 16   // calls that have a connection each
	maxCrowd     = 2048 // so many a server answers in a part of a TTL, and a distant one each trip
)

// answers is called when a connection is silent, and reports whether another is not. Then
// those that are kept may be dead too, and until that is known calls are sent on connections
// that answer.
func (c *client) answers(ctx context.Context) bool {
	d, err := c.dedicated.live(ctx)
	if err != nil {
		return false
	}
	d.release()
	c.dedicated.used(errSilent)
	for _, p := range c.pipelines {
		p.drop()
	}
	return true
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
	if a, sent := doPipelined(ctx, c.pipelines, c.prober, call); sent {
		return a.Reply, a.Err
	}
	if c.prober != nil && c.dedicated.suspected() {
		return c.doLive(ctx, call)
	}
	if c.prober != nil && !call.Ahead { // in a cluster they are for many servers
		select {
		case c.crowd <- struct{}{}:
			defer func() { <-c.crowd }()
		case <-ctx.Done():
			return redisclient.Reply{}, ctx.Err()
		}
	}
	return c.send(ctx, c.c, &call)
}

// send sends a call to a node, or by the whole client to the node of its key, again if it
// was not sent.
func (c *client) send(ctx context.Context, to redis.Client, call *redisclient.Call) (redisclient.Reply, error) {
	for began := time.Now(); ; {
		cmd := build(to.B(), call)
		res, err := within(ctx, c.tasks, c.prober, func() redis.RedisResult { return to.Do(withoutDeadline(ctx), cmd) })
		if err != nil {
			return redisclient.Reply{}, err
		}
		r, err := result(res)
		again, err := unsent(ctx, began, c.closed(err))
		if !again {
			return r, err
		}
	}
}

// doLive sends a call on a connection that has just answered, few at a time: each has one
// to itself.
func (c *client) doLive(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	select {
	case c.live <- struct{}{}:
		defer func() { <-c.live }()
	case <-ctx.Done():
		return redisclient.Reply{}, ctx.Err()
	}
	var a redisclient.Answer // may still be written to if use has not ended
	ended, err := c.dedicated.use(ctx, c.dedicated.live, true, func(d redis.DedicatedClient) error {
		if a = sendAll(ctx, d, []redisclient.Call{call})[0]; redisclient.Code(a.Err) == "" {
			return a.Err
		}
		return nil
	})
	if !ended {
		return redisclient.Reply{}, err
	}
	return a.Reply, a.Err
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
		all, err := within(ctx, c.tasks, nil, func() []redis.RedisResult { return c.c.DoMulti(withoutDeadline(ctx), cmds...) })
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
			return
		}
		for i, res := range all {
			r, err := result(res)
			again, err := unsent(ctx, began, c.closed(err))
			out[at[i]] = redisclient.Answer{Reply: r, Err: err}
			if again {
				more, moreAt = append(more, calls[i]), append(moreAt, at[i])
			}
		}
		calls, at = more, moreAt
	}
}

// Probed uses one connection that has just answered, and returns it to the pool if it has
// answered all. A cluster client has no dedicated connection that spans nodes; it drops
// those that do not answer its pings.
func (c *client) Probed(ctx context.Context) (send redisclient.Many, release func(), err error) {
	if c.Clustered() {
		return c.DoMany, func() {}, nil
	}
	d, err := c.dedicated.live(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, d.Close) // a silent connection must not return to the pool
	var failed atomic.Bool
	send = func(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
		answers, err := within(ctx, c.tasks, nil, func() []redisclient.Answer { return sendAll(ctx, d, calls) })
		for i := range out {
			if err != nil {
				out[i].Err = err
			} else {
				out[i] = answers[i]
			}
			if out[i].Err != nil && redisclient.Code(out[i].Err) == "" {
				failed.Store(true)
			}
		}
	}
	return send, func() {
		c.tasks.Go(func() { // to close a silent connection takes long
			if !stop() || failed.Load() {
				d.Close()
			}
			d.release()
		})
	}, nil
}

// sendAll sends calls on a connection.
func sendAll(ctx context.Context, d redis.DedicatedClient, calls []redisclient.Call) []redisclient.Answer {
	answers := make([]redisclient.Answer, len(calls))
	for i, r := range d.DoMulti(withoutDeadline(ctx), buildAll(d.B(), calls)...) {
		answers[i].Reply, answers[i].Err = result(r)
	}
	return answers
}

// Pipeline has a connection to itself. The last call may block.
func (c *client) Pipeline(ctx context.Context, calls []redisclient.Call) ([]redisclient.Answer, error) {
	if c.Clustered() {
		return redisclient.FollowMove(ctx, c, calls, func() ([]redisclient.Answer, error) {
			return c.pipelineOn(ctx, c.dedicated.any, calls)
		})
	}
	out, err := c.pipelineOn(ctx, c.dedicated.pick, calls)
	c.dedicated.used(err)
	return out, err
}

// pipelineOn sends calls on one connection, and fails unless all have a reply.
func (c *client) pipelineOn(ctx context.Context, take func(context.Context) (dedicated, error), calls []redisclient.Call) ([]redisclient.Answer, error) {
	var out []redisclient.Answer // may still be written to if use fails
	_, err := c.dedicated.use(ctx, take, true, func(d redis.DedicatedClient) error {
		last := len(calls) - 1
		cmds := append(buildAll(d.B(), calls[:last]), encode(d.B(), &calls[last], true))
		for _, r := range d.DoMulti(withoutDeadline(ctx), cmds...) {
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

// closed returns err, or redisclient's if the program has closed the client: a client that
// changes servers also closes connections.
func (c *client) closed(err error) error {
	if !errors.Is(err, redis.ErrClosing) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	if errors.Is(c.c.Do(ctx, c.c.B().Ping().Build()).Error(), redis.ErrClosing) {
		return redisclient.ErrClosed
	}
	return err
}
