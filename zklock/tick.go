package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// A serverClock is what is known of the leader's clock. ZooKeeper tells the time
// only as that of a write.
type serverClock struct {
	millis int64   // what it showed
	at     instant // when, at the latest
	known  bool
}

// ticked takes in the time of a write that was just answered.
func (e *Engine) ticked(millis int64) {
	at := now()
	e.mu.Lock()
	e.server = serverClock{millis, at, true}
	e.mu.Unlock()
}

// tick writes a node that all names share, and so learns the leader's time, in
// milliseconds, and has the server at hand catch up with all that a majority
// agreed on before.
func (e *Engine) tick(ctx context.Context, path string) (millis int64, err error) {
	for made := false; ; made = true {
		var stat *zk.Stat
		err := e.main.do(ctx, nil, func(c *zk.Conn) (err error) {
			stat, err = c.Set(path, nil, -1)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) && !made {
			err = e.makePath(ctx, e.main, nil, path)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		e.ticked(stat.Mtime)
		return stat.Mtime, nil
	}
}

// age says how long ago a moment of the leader's clock was, by that clock.
func (e *Engine) age(millis int64) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.server.known {
		return 0
	}
	passed := time.Duration(e.server.millis-millis)*time.Millisecond + now().sub(e.server.at)
	return max(0, passed)
}
