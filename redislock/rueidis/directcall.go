package rueidis

import (
	"context"
	"errors"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A directCall is the call that uses a pipeline's connection alone. Selecting on ctx.Done
// costs more than the rest of such a call, so that begins only when a tick finds that
// the call is slow.
type directCall struct {
	ctx     context.Context // nil: there is no direct call
	done    chan struct{}   // closed with the call; nil: its ctx is not watched
	aborted bool            // the connection was closed, or is about to be
}

// deadlineOnly is a ctx that has a deadline and nothing else: rueidis uses only that
// here, and other parts of a ctx can be costly.
type deadlineOnly struct {
	context.Context // the background
	until           time.Time
	ok              bool
}

func (d *deadlineOnly) Deadline() (time.Time, bool) { return d.until, d.ok }

// doDirect sends one call and reads its reply. It ends exactly at ctx's deadline; where
// ctx is cancelled before, rueidis would need up to a second to give up a silent
// connection. A reply that came after ctx had ended is dropped: the outcome was reported
// as unknown, or is about to be. After a short call it cannot be told which came first,
// and to ask a ctx is costlier than it seems.
func (p *pipeline) doDirect(ctx context.Context, conn redis.DedicatedClient, c *redisclient.Call) (redisclient.Reply, error) {
	p.deadline.until, p.deadline.ok = ctx.Deadline()
	if p.deadline.ok && !p.deadline.until.After(p.sentAt) { // the connection would not survive it
		p.endDirect(false)
		return redisclient.Reply{}, context.DeadlineExceeded
	}
	res := conn.Do(&p.deadline, build(conn.B(), c))
	lost := res.NonRedisError() != nil
	if slow := p.endDirect(lost); lost || slow {
		if err := ctx.Err(); err != nil {
			return redisclient.Reply{}, err
		}
		if errors.Is(res.NonRedisError(), redis.ErrClosing) { // by watchDirectLocked, or with the client
			return redisclient.Reply{}, errSilent
		}
	}
	return result(res)
}

// endDirect ends a direct call. Calls that came meanwhile, and the end of a lost
// connection, are left to the pipeline's goroutine. It reports whether the call was so
// slow that its ctx was watched.
func (p *pipeline) endDirect(lost bool) (slow bool) {
	p.mu.Lock()
	if slow = p.direct.done != nil; slow {
		close(p.direct.done)
	}
	p.lost = lost || p.direct.aborted
	p.direct = directCall{}
	more := p.lost || p.ended || len(p.waiting) > 0
	p.busy = more
	p.mu.Unlock()
	if more {
		p.resume <- struct{}{} // there is room: it is sent once for each direct call
	}
	return slow
}

// watchDirectLocked watches the ctx of a slow direct call from now on.
func (p *pipeline) watchDirectLocked() {
	ctx := p.direct.ctx
	if ctx == nil || p.direct.done != nil || time.Since(p.sentAt) < slowCall/2 {
		return
	}
	conn, done := p.conn, make(chan struct{})
	p.direct.done = done
	go func() { // ends with the call, which ends with the connection
		if _, err := await(ctx, done, p.prober); err == nil {
			return
		}
		p.mu.Lock()
		abort := p.direct.done == done
		p.direct.aborted = p.direct.aborted || abort
		p.mu.Unlock()
		if abort {
			conn.Close()
		}
	}()
}
