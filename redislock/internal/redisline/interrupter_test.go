package redisline_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// An interrupter is a client that can have the server stop a script at its n-th call, as
// a cluster does that moves a slot.
type interrupter struct {
	redisclient.Client
	c       redis.Client
	scripts *scriptTexts
	few     bool // a script drops one expired claim at most

	mu          sync.Mutex // guards what follows
	at          int        // the call that fails; 0: none
	missing     bool       // a call that touches a key which does not exist fails
	interrupted bool       // a script failed so
}

// guard precedes a script. It also fails where a script touches a key that is not
// declared.
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
    if %t and pawl.call('EXISTS', key) == 0 then error('TEST interrupted at a key that does not exist: ' .. key) end
  end
  calls = calls + 1
  if calls == %d then error('TEST interrupted') end
end
local redis = {
  call = function(...) check(...) return pawl.call(...) end,
  pcall = function(...) return pawl.pcall(...) end,
  error_reply = pawl.error_reply, sha1hex = pawl.sha1hex,
}
`

// dropsMany is how line.lua says how many expired claims a script drops.
const dropsMany = "local drops = 500 "

// interrupt has the next script fail at its n-th call, or at a missing key.
func (c *interrupter) interrupt(n int, missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.missing, c.interrupted = n, missing, false
}

// reset reports whether a script was interrupted, and lets the next ones pass.
func (c *interrupter) reset() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.missing = 0, false
	return c.interrupted
}

// scriptTexts are the scripts that were sent, by digest.
type scriptTexts struct{ plain, guarded sync.Map }

// A variant is a script with the guard that interrupts it.
type variant struct {
	digest  string
	missing bool
	at      int
	few     bool
}

func digestOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// guard returns a script with its guard; ok is false if the script is not known.
func (t *scriptTexts) guard(v variant) (text, digest string, ok bool) {
	if pair, ok := t.guarded.Load(v); ok {
		return pair.([2]string)[0], pair.([2]string)[1], true
	}
	plain, ok := t.plain.Load(v.digest)
	if !ok {
		return "", "", false
	}
	script := plain.(string)
	if v.few {
		script = strings.Replace(script, dropsMany, "local drops = 1 ", 1)
	}
	text = fmt.Sprintf(guard, v.missing, v.at) + script
	digest = digestOf(text)
	t.guarded.Store(v, [2]string{text, digest})
	return text, digest, true
}

func (c *interrupter) Do(ctx context.Context, call redisclient.Call) (redisclient.Reply, error) {
	words := call.Words()
	full := ""
	switch words[0] {
	case "EVAL":
		digest := digestOf(words[1])
		c.scripts.plain.Store(digest, words[1])
		if strings.Contains(words[1], "local function settle") && !strings.Contains(words[1], dropsMany) {
			panic("line.lua says otherwise how many expired claims a script drops")
		}
		words[0], words[1] = "EVALSHA", digest
		fallthrough
	case "EVALSHA":
		c.mu.Lock()
		v := variant{words[1], c.missing, c.at, c.few}
		c.mu.Unlock()
		text, digest, ok := c.scripts.guard(v)
		if !ok {
			return redisclient.Reply{}, redisclient.ServerError("NOSCRIPT")
		}
		full, words[1] = text, digest
	}
	m, err := c.c.Do(ctx, c.c.B().Arbitrary(words...).Build()).ToMessage()
	if e, ok := redis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "NOSCRIPT") {
		words[0], words[1] = "EVAL", full
		m, err = c.c.Do(ctx, c.c.B().Arbitrary(words...).Build()).ToMessage()
	}
	if e, ok := redis.IsRedisErr(err); ok && !e.IsNil() {
		if strings.Contains(e.Error(), "TEST interrupted") {
			c.mu.Lock()
			c.interrupted = true
			c.mu.Unlock()
		}
		return redisclient.Reply{}, redisclient.ServerError(e.Error())
	}
	return replyOf(m), nil
}

func replyOf(m redis.RedisMessage) (r redisclient.Reply) {
	switch {
	case m.IsNil():
		r.Null = true
	case m.IsInt64():
		r.Int, _ = m.AsInt64()
	case m.IsArray():
		all, _ := m.ToArray()
		r.Array = make([]redisclient.Reply, len(all))
		for i := range all {
			r.Array[i] = replyOf(all[i])
		}
	default:
		r.Text, _ = m.ToString()
	}
	return r
}

func (c *interrupter) DoMany(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	for i := range calls {
		out[i].Reply, out[i].Err = c.Do(ctx, calls[i])
	}
}

func (c *interrupter) NodesOf(context.Context, []redisclient.Call) []string { return nil }

func (c *interrupter) EachMaster(context.Context, func(redisclient.Send) error) error {
	return nil
}
func (c *interrupter) Clustered() bool { return false }
func (c *interrupter) Close() error    { return nil }
