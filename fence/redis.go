package fence

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed check.lua
var checkScript string

// An Eval runs a Lua script on a Redis server and returns its reply as text. It is
// one line with any client; with go-redis:
//
//	func(ctx context.Context, script string, keys []string, args ...any) (string, error) {
//		return rdb.Eval(ctx, script, keys, args...).Text()
//	}
type Eval func(ctx context.Context, script string, keys []string, args ...any) (string, error)

// A Redis keeps the marks of a resource in one key of a Redis server, a hash. The
// mark is as durable as that server.
type Redis struct {
	eval Eval
	key  string
}

// NewRedis returns the fence whose marks are at key. In a cluster the keys that Do's
// commands touch must be in the slot of that key.
func NewRedis(eval Eval, key string) *Redis { return &Redis{eval, key} }

// Begin raises the mark to token, or returns ErrStale.
func (r *Redis) Begin(ctx context.Context, mode Mode, token uint64) error {
	_, err := r.run(ctx, mode, token, nil)
	return err
}

// Check is Begin: it reports ErrStale if a later holder has begun. The answer
// may be out of date when it returns; an effect belongs into Do.
func (r *Redis) Check(ctx context.Context, mode Mode, token uint64) error {
	return r.Begin(ctx, mode, token)
}

// Do raises the mark and runs one command, in one step. It returns the command's
// reply as text where that is a number or a string, and else nothing. A number beyond
// 2^53 is rounded in the reply: scripts have no larger ones.
func (r *Redis) Do(ctx context.Context, mode Mode, token uint64, command ...string) (string, error) {
	return r.run(ctx, mode, token, command)
}

func (r *Redis) run(ctx context.Context, mode Mode, token uint64, command []string) (string, error) {
	if token == 0 {
		return "", &StaleError{Mode: mode, Token: token}
	}
	args := []any{mode.String(), fmt.Sprintf("%020d", token)}
	for _, word := range command {
		args = append(args, word)
	}
	reply, err := r.eval(ctx, checkScript, []string{r.key}, args...)
	if err != nil {
		return "", err
	}
	if text, ok := strings.CutPrefix(reply, "ok "); ok {
		return text, nil
	}
	stale := &StaleError{Mode: mode, Token: token}
	if _, err := fmt.Sscanf(reply, "stale %d %d", &stale.Marks.Write, &stale.Marks.Read); err != nil {
		return "", fmt.Errorf("fence: the server's reply is %q", reply)
	}
	return "", stale
}
