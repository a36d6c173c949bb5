package rueidis

import (
	"errors"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// encode encodes a call. The first key determines the node in a cluster; all others are
// in the same slot. A call that may block must say so.
func encode(b redis.Builder, c *redisclient.Call, blocking bool) redis.Completed {
	cmd := b.Arbitrary()
	if c.Script == nil {
		cmd = cmd.Args(c.Name)
	} else {
		command, script, keys := c.ScriptHead()
		cmd = cmd.Args(command, script, keys)
	}
	if len(c.Keys) > 0 {
		cmd = cmd.Keys(c.Keys[0]).Args(c.Keys[1:]...)
	}
	cmd = cmd.Args(c.Args...)
	switch {
	case blocking:
		return cmd.Blocking()
	case c.ReadOnly:
		return cmd.ReadOnly()
	}
	return cmd.Build()
}

func build(b redis.Builder, c *redisclient.Call) redis.Completed { return encode(b, c, false) }

// slotOf returns the slot of a call's key.
func slotOf(c *redisclient.Call, b redis.Builder) int {
	cmd := b.Arbitrary().Keys(c.Keys[0]).Build()
	return int(cmd.Slot())
}

func buildAll(b redis.Builder, calls []redisclient.Call) []redis.Completed {
	all := make([]redis.Completed, len(calls), len(calls)+1)
	for i := range calls {
		all[i] = build(b, &calls[i])
	}
	return all
}

func result(r redis.RedisResult) (redisclient.Reply, error) {
	m, err := r.ToMessage()
	if err != nil {
		if redis.IsRedisNil(err) {
			return redisclient.Reply{Null: true}, nil
		}
		return redisclient.Reply{}, serverError(err)
	}
	return reply(m), nil
}

func reply(m redis.RedisMessage) (r redisclient.Reply) {
	switch {
	case m.IsNil():
		r.Null = true
	case m.IsInt64():
		r.Int, _ = m.AsInt64()
	case m.IsArray():
		all, _ := m.ToArray()
		r.Array = make([]redisclient.Reply, len(all))
		for i := range all {
			r.Array[i] = reply(all[i])
		}
	default:
		r.Text, _ = m.ToString()
	}
	return r
}

// serverError turns an error reply into redisclient's.
func serverError(err error) error {
	if e, ok := errors.AsType[*redis.RedisError](err); ok && !e.IsNil() {
		return redisclient.ServerError(e.Error())
	}
	return err
}
