package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
)

//go:embed lua/take.lua
var takeLua string

//go:embed lua/line.lua
var lineLua string

//go:embed lua/enter.lua
var enterLua string

//go:embed lua/giveback.lua
var givebackLua string

//go:embed lua/leave.lua
var leaveLua string

//go:embed lua/prolong.lua
var prolongLua string

//go:embed lua/look.lua
var lookLua string

//go:embed lua/evict.lua
var evictLua string

//go:embed lua/list.lua
var listLua string

//go:embed lua/watch.lua
var watchLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/store.lua
var storeLua string

// A script is a Lua program and the digest it is called by. Both are made when it
// is first used: a program that has this package but no Redis need not pay for them.
type script struct {
	parts        []string
	once         sync.Once
	text, digest string
}

func newScript(parts ...string) *script { return &script{parts: parts} }

func (s *script) made() *script {
	s.once.Do(func() {
		s.text = strings.Join(s.parts, "")
		sum := sha1.Sum([]byte(s.text))
		s.digest = hex.EncodeToString(sum[:])
	})
	return s
}

// A common case that needs few calls stands ahead of what defines the rest, so
// that it does not pay for the definitions.
var (
	enterScript = newScript(takeLua, lineLua, enterLua)
	shareScript = newScript(lineLua, enterLua)
	leaveScript = newScript(givebackLua, lineLua, leaveLua)
	lookScript  = newScript(prolongLua, lineLua, lookLua)
	evictScript = newScript(lineLua, evictLua)
	listScript  = newScript(lineLua, listLua)
	watchScript = newScript(lineLua, watchLua)
	storeScript = newScript(storeLua)

	renewScript   = newScript(renewLua)
	releaseScript = newScript(releaseLua)
)

// call is the command that runs the script by its digest.
func (s *script) call(keys int, args []string) []string {
	words := make([]string, 0, 4+len(args)) // room for one more
	words = append(words, "EVALSHA", s.made().digest, strconv.Itoa(keys))
	return append(words, args...)
}

// whole turns a call by digest into one that carries the script.
func (s *script) whole(call []string) []string {
	return append([]string{"EVAL", s.made().text}, call[2:]...)
}

// run runs a script with args, the first keys of which are its keys.
func (e *Engine) run(ctx context.Context, s *script, keys int, args []string) (Reply, error) {
	return e.send(ctx, s, args[0], s.call(keys, args))
}

// send sends a call of a script. One that the server does not know it has not run,
// so it is sent whole then.
func (e *Engine) send(ctx context.Context, s *script, key string, call []string) (Reply, error) {
	r, err := e.c.Do(ctx, key, call)
	if code(err) == "NOSCRIPT" {
		r, err = e.c.Do(ctx, key, s.whole(call))
	}
	return r, err
}

// runEach runs a script once per call, all by one send. Where the server does not
// know the script, one call carries it and the others follow by digest; in a
// cluster that is once per node.
func runEach(ctx context.Context, s *script, send func(context.Context, []Command, []Answer), calls []Command, out []Answer) {
	send(ctx, calls, out)
	for {
		var again []Command
		var at []int
		for i := range out {
			if code(out[i].Err) == "NOSCRIPT" {
				again, at = append(again, calls[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			return
		}
		first := again[:1]
		first[0].Words = s.whole(first[0].Words)
		more := make([]Answer, len(again))
		send(ctx, first, more[:1])
		if len(again) > 1 {
			send(ctx, again[1:], more[1:])
		}
		for i, to := range at {
			out[to] = more[i]
		}
	}
}
