package redislock_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock"
)

// A cutter is a client that sends every script whole, and can have the server end
// one of them at its n-th call, as a cluster does that moves a slot.
type cutter struct {
	redislock.Client
	c     redis.Client
	texts *texts

	mu   sync.Mutex // guards what follows
	at   int        // the call that fails; 0: none
	move bool       // a call that touches a key which is not there fails
	done bool       // a script failed so
}

// guard is what stands ahead of a script. It fails, besides, where a script
// touches a key that is not declared.
const guard = `
local pawl = redis
local declared, calls = {}, 0
for _, key in ipairs(KEYS) do declared[key] = true end
local function check(name, ...)
  local keys = {...}
  if name == 'TIME' or name == 'PUBLISH' or name == 'SPUBLISH' then keys = {} end
  if name ~= 'EXISTS' and name ~= 'DEL' and name ~= 'MGET' then keys = {keys[1]} end
  for _, key in ipairs(keys) do
    if not declared[key] then error('TEST undeclared ' .. key) end
    if %t and pawl.call('EXISTS', key) == 0 then error('TEST cut at a key that is not there: ' .. key) end
  end
  calls = calls + 1
  if calls == %d then error('TEST cut') end
end
local redis = {
  call = function(...) check(...) return pawl.call(...) end,
  pcall = function(...) return pawl.pcall(...) end,
  error_reply = pawl.error_reply, sha1hex = pawl.sha1hex,
}
`

// cut has the next script fail at its n-th call.
func (c *cutter) cut(n int, move bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.move, c.done = n, move, false
}

// was reports whether a script has failed since, and lets the others pass.
func (c *cutter) was() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.move = 0, false
	return c.done
}

// texts are the scripts that were sent, by digest. Each is sent whole but once.
type texts struct{ plain, guarded sync.Map }

// A version is a script with the guard that cuts it.
type version struct {
	digest string
	move   bool
	at     int
}

func digestOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// guard returns a script behind its guard; ok is false if the script is not known.
func (t *texts) guard(v version) (text, digest string, ok bool) {
	if pair, ok := t.guarded.Load(v); ok {
		return pair.([2]string)[0], pair.([2]string)[1], true
	}
	plain, ok := t.plain.Load(v.digest)
	if !ok {
		return "", "", false
	}
	text = fmt.Sprintf(guard, v.move, v.at) + plain.(string)
	digest = digestOf(text)
	t.guarded.Store(v, [2]string{text, digest})
	return text, digest, true
}

func (c *cutter) Do(ctx context.Context, _ string, words []string) (redislock.Reply, error) {
	words = slices.Clone(words)
	whole := ""
	switch words[0] {
	case "EVAL":
		digest := digestOf(words[1])
		c.texts.plain.Store(digest, words[1])
		words[0], words[1] = "EVALSHA", digest
		fallthrough
	case "EVALSHA":
		c.mu.Lock()
		v := version{words[1], c.move, c.at}
		c.mu.Unlock()
		text, digest, ok := c.texts.guard(v)
		if !ok {
			return redislock.Reply{}, redislock.ServerError("NOSCRIPT")
		}
		whole, words[1] = text, digest
	}
	m, err := c.c.Do(ctx, c.c.B().Arbitrary(words...).Build()).ToMessage()
	if e, ok := redis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "NOSCRIPT") {
		words[0], words[1] = "EVAL", whole
		m, err = c.c.Do(ctx, c.c.B().Arbitrary(words...).Build()).ToMessage()
	}
	if e, ok := redis.IsRedisErr(err); ok && !e.IsNil() {
		if strings.Contains(e.Error(), "TEST cut") {
			c.mu.Lock()
			c.done = true
			c.mu.Unlock()
		}
		return redislock.Reply{}, redislock.ServerError(e.Error())
	}
	return replyOf(m), nil
}

func replyOf(m redis.RedisMessage) (r redislock.Reply) {
	switch {
	case m.IsNil():
		r.Null = true
	case m.IsInt64():
		r.Int, _ = m.AsInt64()
	case m.IsArray():
		all, _ := m.ToArray()
		r.Array = make([]redislock.Reply, len(all))
		for i := range all {
			r.Array[i] = replyOf(all[i])
		}
	default:
		r.Text, _ = m.ToString()
	}
	return r
}

func (c *cutter) Each(ctx context.Context, cmds []redislock.Command, out []redislock.Answer) {
	for i := range cmds {
		out[i].Reply, out[i].Err = c.Do(ctx, cmds[i].Key, cmds[i].Words)
	}
}

func (c *cutter) All(context.Context, []string) ([]redislock.Answer, error) { return nil, nil }
func (c *cutter) Clustered() bool                                           { return false }
func (c *cutter) Close() error                                              { return nil }
