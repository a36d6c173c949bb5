package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
)

// A serverTime is what is known of the leader's clock. ZooKeeper tells the time only as the
// time of a write.
type serverTime struct {
	millis int64             // what the clock showed
	at     driverkit.Instant // when, at the latest
	known  bool
}

// observeTime takes in the time of a write that was just answered.
func (e *Engine) observeTime(millis int64) {
	at := driverkit.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = serverTime{millis, at, true}
}

// fetchTime writes a node that all names share. It returns the leader's time in
// milliseconds, and has the connected server apply everything that was committed before.
func (e *Engine) fetchTime(ctx context.Context, path string) (millis int64, err error) {
	var stat *zk.Stat
	write := func(c *zk.Conn) (err error) {
		stat, err = c.Set(path, nil, -1)
		return err
	}
	err = e.main.Call(ctx, write)
	if errors.Is(err, zk.ErrNoNode) {
		if err = e.createPath(ctx, e.main, path); err == nil {
			err = e.main.Call(ctx, write)
		}
	}
	if err != nil {
		return 0, err
	}
	e.observeTime(stat.Mtime)
	return stat.Mtime, nil
}

// age is how long ago a moment of the leader's clock was, by that clock.
func (e *Engine) age(millis int64) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.server.known {
		return 0
	}
	passed := time.Duration(e.server.millis-millis)*time.Millisecond + driverkit.Now().Sub(e.server.at)
	return max(0, passed)
}
