package goredis

import (
	"context"
	"errors"
	"fmt"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// command is a command that go-redis does not repeat.
type command struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command: its outcome is unknown.
func (command) NoRetry() bool { return true }

func encode(ctx context.Context, c *redisclient.Call) command {
	words := c.Words()
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	return command{redis.NewCmd(ctx, args...)}
}

// queue makes a pipeline of calls.
func queue(ctx context.Context, on pipeliner, calls []redisclient.Call) (redis.Pipeliner, []command) {
	p := on.Pipeline()
	cmds := make([]command, len(calls))
	for i := range calls {
		cmds[i] = encode(ctx, &calls[i])
		var queued redis.Cmder = cmds[i]
		if calls[i].ReadOnly {
			queued = cmds[i].Cmd
		}
		_ = p.Process(ctx, queued) // the command has the result
	}
	return p, cmds
}

// results returns the results of commands that were processed.
func results(cmds []command, out []redisclient.Answer) {
	for i := range cmds {
		out[i].Reply, out[i].Err = result(cmds[i])
	}
}

func result(cmd command) (redisclient.Reply, error) {
	v, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return redisclient.Reply{Null: true}, nil
	case err != nil:
		return redisclient.Reply{}, serverError(err)
	}
	return reply(v), nil
}

func reply(v any) (r redisclient.Reply) {
	switch v := v.(type) {
	case nil:
		r.Null = true
	case int64:
		r.Int = v
	case string:
		r.Text = v
	case []any:
		r.Array = make([]redisclient.Reply, len(v))
		for i := range v {
			r.Array[i] = reply(v[i])
		}
	default:
		r.Text = fmt.Sprint(v)
	}
	return r
}

// serverError turns an error reply, and the error of a closed client, into redisclient's.
func serverError(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return redisclient.ErrClosed
	}
	var served redis.Error
	if errors.As(err, &served) && !errors.Is(err, redis.Nil) {
		return redisclient.ServerError(served.Error())
	}
	return err
}
