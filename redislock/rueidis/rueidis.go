// Package rueidis brings package redislock the rueidis client, which sends the
// commands of many goroutines in few packets by itself. Opened by URL, pawl uses
// Redis through it.
//
// URLs: "redis://user:password@host:6379/db", "rediss://" with TLS,
// "redis-sentinel://host1,host2/master/db", "redis-cluster://host1,host2". See
// docs/redis.md for the parameters.
package rueidis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
)

// New returns an engine on a client the program already has, which stays open.
// Whatever the client is set to, it does not repeat the engine's commands.
func New(c redis.Client, opts ...redislock.Option) driver.Engine {
	return redislock.New(newClient(c, false), opts...)
}

// client is what redislock asks of Redis.
type client struct {
	c                 redis.Client
	owned             bool         // to be closed with the engine
	convoys           []*convoy    // none where there is more than one server
	answered, doubted atomic.Int64 // when a connection of the pool last answered, and until when they are in doubt; unix ns
	making            atomic.Int64 // tries that wait for the pool, which hands out an idle connection at once

	tasks sync.WaitGroup // calls that went on after their ctx had ended, and the convoy's; Close waits for them
}

func newClient(c redis.Client, owned bool) *client {
	cl := &client{c: c, owned: owned}
	if c.Mode() == redis.ClientModeStandalone {
		cl.convoys = []*convoy{newConvoy(), newConvoy()}
	}
	return cl
}

func (c *client) Clustered() bool { return c.c.Mode() == redis.ClientModeCluster }

func (c *client) Close() error {
	for _, v := range c.convoys {
		v.end()
	}
	c.tasks.Wait()
	if c.owned {
		c.c.Close()
	}
	return nil
}

// undated is a ctx without a deadline. Given one, rueidis would read the reply in
// the caller's goroutine and not notice that ctx was cancelled before it. Its error is
// marked, see unsent.
type undated struct {
	context.Context // its values: those who derive from it must ask it for the error
	of              context.Context
}

func undate(ctx context.Context) undated { return undated{context.WithoutCancel(ctx), ctx} }

func (u undated) Deadline() (time.Time, bool) { return time.Time{}, false }
func (u undated) Done() <-chan struct{}       { return u.of.Done() }

func (u undated) Err() error {
	if err := u.of.Err(); err != nil {
		return gaveUp{err}
	}
	return nil
}

// gaveUp is the end of some caller's ctx.
type gaveUp struct{ error }

func (g gaveUp) Unwrap() error { return g.error }

// command builds a command; key is one of its words, or "" if none of them is one.
func (c *client) command(b redis.Builder, key string, words []string) redis.Completed {
	for i, w := range words {
		if w == key && i > 0 {
			return b.Arbitrary(words[:i]...).Keys(key).Args(words[i+1:]...).Build()
		}
	}
	return b.Arbitrary(words...).Build()
}

func (c *client) Do(ctx context.Context, key string, words []string) (redislock.Reply, error) {
	if r, ok, err := c.ride(ctx, words); ok {
		return r, err
	}
	for begun := time.Now(); ; {
		cmd := c.command(c.c.B(), key, words)
		res, err := bounded(ctx, &c.tasks, func() redis.RedisResult { return c.c.Do(undate(ctx), cmd) })
		if err != nil {
			return redislock.Reply{}, err
		}
		r, err := answer(res)
		again, err := unsent(ctx, begun, err)
		if !again {
			return r, err
		}
	}
}

// bounded calls f and comes back when ctx ends, also where f does not: rueidis
// looks at no ctx while it greets a server it has connected to, nor while it waits
// for another caller's connection. Then f goes on among tasks, by the client's own
// time limits.
func bounded[T any](ctx context.Context, tasks *sync.WaitGroup, f func() T) (t T, err error) {
	if ctx.Done() == nil {
		return f(), nil
	}
	done := make(chan T, 1)
	tasks.Go(func() { done <- f() })
	select {
	case t = <-done:
		return t, nil
	case <-ctx.Done():
		return t, ctx.Err()
	}
}

// many is DoMulti, bounded by ctx.
func (c *client) many(ctx context.Context, cmds []redis.Completed) ([]redis.RedisResult, error) {
	return bounded(ctx, &c.tasks, func() []redis.RedisResult { return c.c.DoMulti(undate(ctx), cmds...) })
}

func (c *client) Each(ctx context.Context, cmds []redislock.Command, out []redislock.Answer) {
	at := make([]int, len(cmds))
	for i := range at {
		at[i] = i
	}
	for begun := time.Now(); len(cmds) > 0; {
		var more []redislock.Command
		var moreAt []int
		all, err := c.many(ctx, c.commands(c.c.B(), cmds))
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
			return
		}
		for i, res := range all {
			r, err := answer(res)
			again, err := unsent(ctx, begun, err)
			out[at[i]] = redislock.Answer{Reply: r, Err: err}
			if again {
				more, moreAt = append(more, cmds[i]), append(moreAt, at[i])
			}
		}
		cmds, at = more, moreAt
	}
}

// unsent reports whether a command was not sent because another caller gave up:
// rueidis connects once for all who want a connection, in the ctx of the first, and
// where that ends before the server was greeted all get its error: ours are marked,
// the program's may be cancelled. A connection that does not answer its pings ends all
// calls on it with a deadline that is neither. Such an error must not look like the
// end of one's own ctx either.
func unsent(ctx context.Context, begun time.Time, err error) (again bool, _ error) {
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	var dial *net.OpError
	var other gaveUp
	connecting := err == context.Canceled || errors.As(err, &other) || errors.As(err, &dial) && dial.Op == "dial"
	if connecting && time.Since(begun) < dialLimit {
		return true, err
	}
	return false, errors.New(err.Error())
}

func (c *client) commands(b redis.Builder, cmds []redislock.Command) []redis.Completed {
	all := make([]redis.Completed, len(cmds))
	for i := range cmds {
		all[i] = c.command(b, cmds[i].Key, cmds[i].Words)
	}
	return all
}

// Fresh uses a connection that has just answered, and closes it: one that was kept
// for the next time could be dead by then. A cluster client gives none that spans
// nodes, and drops those that do not answer its pings.
func (c *client) Fresh(ctx context.Context, cmds []redislock.Command, out []redislock.Answer) {
	if c.Clustered() {
		c.Each(ctx, cmds, out)
		return
	}
	answers := make([]redislock.Answer, len(cmds))
	ended, err := c.alone(ctx, c.live, false, func(d redis.DedicatedClient) (failed error) {
		for i, r := range d.DoMulti(undate(ctx), c.commands(d.B(), cmds)...) {
			answers[i].Reply, answers[i].Err = answer(r)
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

// alone calls use with a connection of its own, which is closed if use fails, if
// ctx ends, or if it is not to be kept. It comes back when ctx ends, also where a
// connection is not to be had, and reports whether use has ended.
func (c *client) alone(ctx context.Context, take func(context.Context) (dedicated, error), keep bool, use func(redis.DedicatedClient) error) (ended bool, err error) {
	type result struct {
		used bool
		err  error
	}
	r, err := bounded(ctx, &c.tasks, func() result {
		d, err := take(ctx)
		if err != nil {
			return result{false, err}
		}
		defer d.release()
		stop := context.AfterFunc(ctx, d.Close) // a silent one must not stay in the pool
		err = use(d.DedicatedClient)
		if !stop() || err != nil || !keep {
			d.Close()
		}
		return result{true, err}
	})
	if err != nil {
		return false, err
	}
	return r.used, r.err
}

// Together has a connection to itself. The last command may block.
func (c *client) Together(ctx context.Context, key string, cmds [][]string) ([]redislock.Answer, error) {
	if c.Clustered() {
		return c.togetherAt(ctx, key, cmds)
	}
	var out []redislock.Answer
	_, err := c.alone(ctx, c.pick, true, func(d redis.DedicatedClient) (err error) {
		b := d.B()
		all := make([]redis.Completed, len(cmds))
		for i, words := range cmds[:len(cmds)-1] {
			all[i] = c.command(b, key, words)
		}
		all[len(cmds)-1] = b.Arbitrary(cmds[len(cmds)-1]...).Blocking()
		out, err = answers(d.DoMulti(undate(ctx), all...))
		return err
	})
	c.used(err)
	if err != nil {
		_, err = unsent(ctx, time.Time{}, err)
		return nil, err
	}
	return out, nil
}

// togetherAt is Together in a cluster, on a connection to the node of key. A
// redirection must not tear the piece apart, so it is followed by asking for the
// key with a command of its own, from which the client learns where it is now.
func (c *client) togetherAt(ctx context.Context, key string, cmds [][]string) ([]redislock.Answer, error) {
	for try := 0; ; try++ {
		var out []redislock.Answer
		_, err := c.alone(ctx, c.any, true, func(d redis.DedicatedClient) (err error) {
			b := d.B()
			all := make([]redis.Completed, len(cmds))
			for i, words := range cmds {
				all[i] = c.command(b, key, words)
			}
			out, err = answers(d.DoMulti(undate(ctx), all...))
			return err
		})
		if err != nil {
			return nil, err
		}
		if try > 0 || !moved(out[0].Err) {
			return out, nil
		}
		if _, err := c.Do(ctx, key, []string{"EXISTS", key}); err != nil {
			return nil, err
		}
	}
}

// moved reports whether a node says that a key is another's now.
func moved(err error) bool {
	var served redislock.ServerError
	return errors.As(err, &served) && strings.HasPrefix(string(served), "MOVED ")
}

func answers(rs []redis.RedisResult) ([]redislock.Answer, error) {
	out := make([]redislock.Answer, len(rs))
	for i, r := range rs {
		if err := r.NonRedisError(); err != nil {
			return nil, err
		}
		out[i].Reply, out[i].Err = answer(r)
	}
	return out, nil
}

// answer makes sense of a result. An error of the server is one of redislock's.
func answer(r redis.RedisResult) (redislock.Reply, error) {
	m, err := r.ToMessage()
	if err != nil {
		if redis.IsRedisNil(err) {
			return redislock.Reply{Null: true}, nil
		}
		if e, ok := redis.IsRedisErr(err); ok {
			return redislock.Reply{}, redislock.ServerError(e.Error())
		}
		return redislock.Reply{}, err
	}
	return reply(m), nil
}

func reply(m redis.RedisMessage) (r redislock.Reply) {
	switch {
	case m.IsNil():
		r.Null = true
	case m.IsInt64():
		r.Int, _ = m.AsInt64()
	case m.IsArray():
		all, _ := m.ToArray()
		r.Array = make([]redislock.Reply, len(all))
		for i := range all {
			r.Array[i] = reply(all[i])
		}
	default:
		r.Text, _ = m.ToString()
	}
	return r
}
