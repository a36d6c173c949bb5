package redisclient

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Run sends a call. A server that does not know its script has not run it, so the
// call is sent again with the text.
func Run(ctx context.Context, c Client, call Call) (Reply, error) {
	r, err := c.Do(ctx, call)
	if Code(err) == "NOSCRIPT" {
		r, err = c.Do(ctx, call.WithText())
	}
	return r, err
}

// RunMany sends calls of few scripts by send. Where the server does not know a script,
// one call carries the text and the others follow by digest; that is repeated for each
// script, and in a cluster for each node.
func RunMany(ctx context.Context, send Many, calls []Call, out []Answer) {
	send(ctx, calls, out)
	for {
		var again []Call
		var at []int
		for i := range out {
			if Code(out[i].Err) == "NOSCRIPT" {
				again, at = append(again, calls[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			return
		}
		again[0] = again[0].WithText()
		more := make([]Answer, len(again))
		send(ctx, again[:1], more[:1])
		if len(again) > 1 {
			send(ctx, again[1:], more[1:])
		}
		for i, to := range at {
			out[to] = more[i]
		}
	}
}

// RunAndWait runs a script, and in the same packet on the same connection WAIT, which
// counts only the writes of its own connection. It returns the number of replicas
// that have confirmed within a time.
func RunAndWait(ctx context.Context, c Client, call Call, replicas int, within time.Duration) (r Reply, confirmed int, err error) {
	wait := Wait(replicas, within)
	out, err := c.Pipeline(ctx, []Call{call, wait})
	if err == nil && Code(out[0].Err) == "NOSCRIPT" {
		out, err = c.Pipeline(ctx, []Call{call.WithText(), wait})
	}
	if err != nil {
		return Reply{}, 0, err
	}
	if out[0].Err != nil {
		return Reply{}, 0, out[0].Err
	}
	return out[0].Reply, int(out[1].Int), out[1].Err
}

// Wait returns a call that waits for replicas, at most for a time, until they have what
// its connection has written.
func Wait(replicas int, within time.Duration) Call {
	return Call{Name: "WAIT", Blocks: within, Args: []string{
		strconv.Itoa(replicas), strconv.FormatInt(max(within.Milliseconds(), 1), 10), // 0 would wait for ever
	}}
}

// SplitLast answers calls that a pipeline has sent with one more behind them, for
// DoManyThen of a [Client].
func SplitLast(answers []Answer, err error, out, lasts []Answer) {
	for i := range out {
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i], lasts[i] = answers[i], answers[len(out)]
	}
}

// scanCount is the number of keys that the server looks at in one step.
const scanCount = "2000"

// Scan calls found with each key that matches a pattern, on every node that accepts
// writes. It may report a key twice.
func Scan(ctx context.Context, c Client, pattern string, found func(key string)) error {
	return c.EachMaster(ctx, func(do Send) error {
		for cursor := "0"; ; {
			r, err := do(ctx, Call{Name: "SCAN", Args: []string{cursor, "MATCH", pattern, "COUNT", scanCount}, ReadOnly: true})
			if err != nil {
				return err
			}
			if len(r.Array) != 2 {
				return errors.New("redislock: SCAN replied something unexpected")
			}
			for _, key := range r.Array[1].Array {
				found(key.Text)
			}
			if cursor = r.Array[0].Text; cursor == "0" {
				return nil
			}
		}
	})
}

// FollowMove sends a pipeline to the node that a cluster client believes to serve its
// key. A redirection must not split the pipeline, so after MOVED the client learns the
// new node by a command of its own, and the pipeline is sent once more.
func FollowMove(ctx context.Context, c Client, calls []Call, send func() ([]Answer, error)) ([]Answer, error) {
	out, err := send()
	if err != nil || Code(out[0].Err) != "MOVED" {
		return out, err
	}
	if _, err := c.Do(ctx, Command("EXISTS", calls[0].Keys[0])); err != nil {
		return nil, err
	}
	return send()
}
