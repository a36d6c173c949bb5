// Package goredis brings package redislock the go-redis client.
//
// It uses the connections of the client it is given, as the client's options say,
// but for two things: it repeats no command whose outcome is unknown, and a call
// comes back when its ctx ends. For both it does not matter how the client is set.
// The calls of many goroutines travel in few pipelines; hooks of the client see
// those.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock"
)

// New returns an engine on a client the program already has, which stays open:
// *redis.Client (also from NewFailoverClient) or *redis.ClusterClient. Other kinds,
// such as a Ring, would spread the keys of one lock over servers that do not know
// each other: such an engine answers driver.ErrUnsupported.
func New(c redis.UniversalClient, opts ...redislock.Option) driver.Engine {
	cl := &client{c: c, crew: driverkit.NewPool(keep)}
	if _, one := c.(*redis.Client); one {
		cl.ferry = &ferry{c: c, crew: cl.crew}
	}
	return redislock.New(cl, opts...)
}

// client is what redislock asks of Redis.
type client struct {
	c     redis.UniversalClient
	crew  *driverkit.Pool // of calls, which may go on after their ctx has ended
	ferry *ferry          // nil: calls are for more than one server
}

func (c *client) Clustered() bool {
	_, ok := c.c.(*redis.ClusterClient)
	return ok
}

// Close waits for calls that were given up; the client's own time limits end them.
func (c *client) Close() error {
	c.crew.Close()
	return nil
}

// once is a command that go-redis does not send twice.
type once struct{ *redis.Cmd }

// NoRetry says that the command's outcome is not to be guessed.
func (once) NoRetry() bool { return true }

func command(ctx context.Context, words []string) once {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	return once{redis.NewCmd(ctx, args...)}
}

const (
	patience = 5 * time.Millisecond // how long a call waits before it counts as slow
	keep     = 128                  // goroutines that wait for calls
)

// within runs call and comes back when ctx ends, which go-redis by itself would
// not notice while it reads. It reports whether call has ended.
func (c *client) within(ctx context.Context, call func()) bool {
	done := make(chan struct{})
	c.crew.Do(func() { // ends by the client's time limits; Close waits for it
		defer close(done)
		call()
	})
	return await(ctx, done, func() {}) == nil
}

// await waits until done, or ctx ends. To wait for the end of a ctx can cost as much
// as a call, and calls are short: so that is waited for only after slow was called.
func await(ctx context.Context, done <-chan struct{}, slow func()) error {
	t := timers.Get().(*time.Timer)
	t.Reset(patience)
	defer timers.Put(t)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		slow()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// unwatched is a ctx whose end within sees to; go-redis keeps to the deadline at
// most.
type unwatched struct{ context.Context }

func (unwatched) Done() <-chan struct{} { return nil }

// supported refuses a client whose servers do not know each other.
func (c *client) supported() error {
	switch c.c.(type) {
	case *redis.Client, *redis.ClusterClient:
		return nil
	}
	return fmt.Errorf("goredis: a %T: %w", c.c, driver.ErrUnsupported)
}

func (c *client) Do(ctx context.Context, _ string, words []string) (redislock.Reply, error) {
	if err := c.supported(); err != nil {
		return redislock.Reply{}, err
	}
	if c.ferry != nil {
		return c.ferry.ride(ctx, words)
	}
	cmd := command(ctx, words)
	if !c.within(ctx, func() { _ = c.c.Process(unwatched{ctx}, cmd) }) {
		return redislock.Reply{}, ctx.Err()
	}
	return answer(cmd)
}

func (c *client) Each(ctx context.Context, cmds []redislock.Command, out []redislock.Answer) {
	words := make([][]string, len(cmds))
	for i := range cmds {
		words[i] = cmds[i].Words
	}
	c.pipe(ctx, c.c, words, out)
}

// Fresh is Each: go-redis drops a connection that failed, so the next is another.
func (c *client) Fresh(ctx context.Context, cmds []redislock.Command, out []redislock.Answer) {
	c.Each(ctx, cmds, out)
}

// A piper makes pipelines: a client, or one node of a cluster.
type piper interface{ Pipeline() redis.Pipeliner }

// pipe sends commands in one pipeline and answers for each.
func (c *client) pipe(ctx context.Context, on piper, all [][]string, out []redislock.Answer) {
	if err := c.supported(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return
	}
	p, cmds := queue(ctx, on, all)
	if !c.within(ctx, func() { _, _ = p.Exec(unwatched{ctx}) }) {
		for i := range out {
			out[i].Err = ctx.Err()
		}
		return
	}
	read(cmds, out)
}

// queue makes a pipeline of commands.
func queue(ctx context.Context, on piper, all [][]string) (redis.Pipeliner, []once) {
	p := on.Pipeline()
	cmds := make([]once, len(all))
	for i, words := range all {
		cmds[i] = command(ctx, words)
		_ = p.Process(ctx, cmds[i]) // queued; the answer is the command's
	}
	return p, cmds
}

// read answers for commands that were processed.
func read(cmds []once, out []redislock.Answer) {
	for i := range cmds {
		out[i].Reply, out[i].Err = answer(cmds[i])
	}
}

// Together is a pipeline, which go-redis sends on one connection. In a cluster it
// goes to the node of key: a pipeline of the cluster client could be torn apart
// by a redirection, and WAIT be answered by another node than the grant. Where
// the node says that the key has moved, the client is made to learn it by a
// command of its own.
func (c *client) Together(ctx context.Context, key string, cmds [][]string) ([]redislock.Answer, error) {
	cluster, clustered := c.c.(*redis.ClusterClient)
	for try := 0; ; try++ {
		var on piper = c.c
		if clustered {
			node, err := cluster.MasterForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			on = node
		}
		out := make([]redislock.Answer, len(cmds))
		c.pipe(ctx, on, cmds, out)
		for _, a := range out {
			var served redislock.ServerError
			if a.Err != nil && !errors.As(a.Err, &served) {
				return nil, a.Err
			}
		}
		if !clustered || try > 0 || !moved(out[0].Err) {
			return out, nil
		}
		if _, err := c.Do(ctx, key, []string{"EXISTS", key}); err != nil {
			return nil, err
		}
	}
}

// answer makes sense of a command that was processed.
func answer(cmd once) (redislock.Reply, error) {
	v, err := cmd.Result()
	var served redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return redislock.Reply{Null: true}, nil
	case errors.As(err, &served):
		return redislock.Reply{}, redislock.ServerError(served.Error())
	case err != nil:
		return redislock.Reply{}, err
	}
	return reply(v), nil
}

func reply(v any) (r redislock.Reply) {
	switch v := v.(type) {
	case nil:
		r.Null = true
	case int64:
		r.Int = v
	case string:
		r.Text = v
	case []any:
		r.Array = make([]redislock.Reply, len(v))
		for i := range v {
			r.Array[i] = reply(v[i])
		}
	default:
		r.Text = fmt.Sprint(v)
	}
	return r
}
