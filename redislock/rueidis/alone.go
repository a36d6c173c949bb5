package rueidis

import (
	"context"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock"
)

// A lone is what a convoy knows of a trip that one call makes alone. To be told of
// the end of a ctx costs more than the rest of such a call, so nobody is until the
// alarm finds that the trip takes long.
type lone struct {
	ctx  context.Context // nil: there is no such trip
	over chan struct{}   // closed with the trip; nil: its ctx is not watched
	cut  bool            // its connection was closed, or is about to be
}

// idle takes a convoy that nobody uses, for a trip alone.
func (c *client) idle(ctx context.Context, v *convoy) redis.DedicatedClient {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.d == nil {
		c.makeConvoyLocked(v)
		return nil
	}
	if v.busy || v.ended {
		return nil
	}
	v.busy, v.left, v.lone.ctx = true, time.Now(), ctx
	v.useLocked()
	return v.d
}

// dated is a ctx that has a deadline and nothing else: rueidis looks only at that
// here, and what else there may be in a ctx can be costly to ask for.
type dated struct {
	context.Context // that of nobody
	until           time.Time
	ok              bool
}

func (d *dated) Deadline() (time.Time, bool) { return d.until, d.ok }

// rideAlone is the trip of one call. It ends exactly at ctx's deadline; where ctx
// is cancelled before, rueidis would need up to a second to let go of a silent
// connection. An answer that came after ctx had ended is none: whoever asked has
// been told that the outcome is unknown, or is about to be. After a short trip
// nobody can tell which came first, and to ask a ctx costs more than it seems.
func (v *convoy) rideAlone(ctx context.Context, d redis.DedicatedClient, words []string) (redislock.Reply, error) {
	v.dated.until, v.dated.ok = ctx.Deadline()
	if v.dated.ok && !v.dated.until.After(v.left) { // the connection would not survive it
		v.alighted(false)
		return redislock.Reply{}, context.DeadlineExceeded
	}
	res := d.Do(&v.dated, d.B().Arbitrary(words...).Build())
	lost := res.NonRedisError() != nil
	if long := v.alighted(lost); lost || long {
		if err := ctx.Err(); err != nil {
			return redislock.Reply{}, err
		}
	}
	return answer(res)
}

// alighted ends a trip alone. Those who came meanwhile, and the end of a lost
// connection, are left to the convoy's goroutine. It reports whether the trip was
// so long that its ctx was watched.
func (v *convoy) alighted(lost bool) (long bool) {
	v.mu.Lock()
	if long = v.lone.over != nil; long {
		close(v.lone.over)
	}
	v.failed = lost || v.lone.cut
	v.lone = lone{}
	more := v.failed || v.ended || len(v.next) > 0
	v.busy = more
	v.mu.Unlock()
	if more {
		v.leave <- struct{}{} // there is room: it is sent once for each trip alone
	}
	return long
}

// watchLocked has the ctx of a trip alone watched from now on, if the trip is long.
func (v *convoy) watchLocked() {
	ctx := v.lone.ctx
	if ctx == nil || v.lone.over != nil || time.Since(v.left) < patience/2 {
		return
	}
	d, over := v.d, make(chan struct{})
	v.lone.over = over
	go func() { // ends with the trip, which ends with the connection
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		v.mu.Lock()
		cut := v.lone.over == over
		v.lone.cut = v.lone.cut || cut
		v.mu.Unlock()
		if cut {
			d.Close()
		}
	}()
}
