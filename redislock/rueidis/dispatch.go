package rueidis

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// doPipelined sends a call on an idle pipeline, or together with others on the one that
// is expected to return first. If sent is false, no pipeline could be used.
func doPipelined(ctx context.Context, pipelines []*pipeline, probe *prober, c redisclient.Call) (a redisclient.Answer, sent bool) {
	for _, p := range pipelines {
		if conn := p.takeIdle(ctx); conn != nil {
			a.Reply, a.Err = p.doDirect(ctx, conn, &c)
			return a, true
		}
	}
	if len(pipelines) == 0 {
		return a, false
	}
	call, room := redisclient.NewPendingCall(c), maxWaiting
	if c.Ahead {
		room *= 2
	}
	slow := enqueue(pipelines, call, room)
	if slow == nil {
		call.Result()
		return a, false
	}
	if a.Err = wait(ctx, call.Done, slow, probe); a.Err != nil {
		return a, true // the pipeline frees the call
	}
	return call.Result()
}

// enqueue adds a call to the pipeline that was sent first. It returns the channel that
// is closed when the call is slow; nil if no pipeline has room for it.
func enqueue(pipelines []*pipeline, call *redisclient.PendingCall, room int) (slow <-chan struct{}) {
	var best *pipeline
	var sentAt time.Time
	for _, p := range pipelines {
		p.mu.Lock()
		if p.acceptsLocked(room) && (best == nil || p.sentAt.Before(sentAt)) {
			best, sentAt = p, p.sentAt
		}
		p.mu.Unlock()
	}
	if best == nil || time.Since(sentAt) > longTrip {
		return nil
	}
	best.mu.Lock()
	defer best.mu.Unlock()
	if !best.acceptsLocked(room) { // it has returned just now
		return nil
	}
	best.useLocked()
	best.waiting = append(best.waiting, call)
	return best.slow
}

// wait waits for a call. Selecting on ctx.Done can cost more than all the rest of the
// call, and trips are short: so that begins only once slow is closed.
func wait(ctx context.Context, done, slow <-chan struct{}, probe *prober) error {
	select {
	case <-done:
		return nil
	case <-slow:
	}
	_, err := await(ctx, done, probe)
	return err
}
