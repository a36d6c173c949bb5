package rueidis

import (
	"context"
	"time"

	redis "github.com/redis/rueidis"
)

// A dedicated is a connection that nobody else uses.
type dedicated struct {
	redis.DedicatedClient
	release func()
	err     error // why there is none
}

const (
	most      = 63              // connections that one call tries at most
	probeTime = time.Second     // how long one has to answer
	idleTime  = time.Second     // one that was used so lately is taken to live
	doubtTime = 5 * time.Second // after a call without an answer, connections are tried first for so long
)

// live returns a connection that answers. Those that lie idle in the client's pool
// may have died without a word, all at once, and the client hands them out before
// it makes another. So while there is no answer live tries more of them at a
// time, twice as many in each eighth of the time there is; who does not answer
// leaves the pool. As soon as the client has to make one there are no idle ones any
// more, and it is the server that is slow: more connections would make it slower.
func (c *client) live(ctx context.Context) (dedicated, error) {
	gap := probeTime / 4
	if at, ok := ctx.Deadline(); ok {
		gap = max(min(gap, time.Until(at)/8), probeTime/200)
	}
	answers, over := make(chan dedicated), make(chan struct{})
	defer close(over)
	wave := time.NewTimer(gap)
	defer wave.Stop()
	tried, open := 0, 0
	more := func(n int) {
		for ; n > 0 && tried < most; n-- {
			tried, open = tried+1, open+1
			c.tasks.Go(func() { c.try(answers, over) }) // ends by probeTime and the client's dial limit; Close waits for it
		}
	}
	more(1)
	for {
		select {
		case d := <-answers:
			if d.err == nil {
				return d, nil
			}
			if open--; open == 0 {
				if tried > 2 { // no idle ones any more, but the server itself
					return dedicated{}, d.err
				}
				more(1)
			}
		case <-wave.C:
			if c.making.Load() == 0 {
				more(tried + 1)
			}
			wave.Reset(gap)
		case <-ctx.Done():
			return dedicated{}, ctx.Err()
		}
	}
}

// try asks one connection for a sign of life.
func (c *client) try(answers chan<- dedicated, over <-chan struct{}) {
	c.making.Add(1)
	d, release := c.c.Dedicate()
	c.making.Add(-1)
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := d.Do(ctx, d.B().Ping().Build()).NonRedisError()
	if err != nil {
		d.Close()
	}
	select {
	case answers <- dedicated{d, release, err}:
	case <-over:
		if err == nil {
			release()
		}
	}
}

// any is a connection of the pool, as it comes.
func (c *client) any(context.Context) (dedicated, error) {
	d, release := c.c.Dedicate()
	return dedicated{DedicatedClient: d, release: release}, nil
}

// pick returns a connection of the pool: any that was used lately, or one that
// answers.
func (c *client) pick(ctx context.Context) (dedicated, error) {
	now := time.Now().UnixNano()
	if now-c.answered.Load() < int64(idleTime) && now > c.doubted.Load() {
		return c.any(ctx)
	}
	return c.live(ctx)
}

// used notes how a call on a connection of the pool went.
func (c *client) used(err error) {
	now := time.Now()
	if err == nil {
		c.answered.Store(now.UnixNano())
	} else {
		c.doubted.Store(now.Add(doubtTime).UnixNano())
	}
}
