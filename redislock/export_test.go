package redislock

import (
	"context"
	"time"
)

// WatchOnce is one call of what keeps a name watched.
func (e *Engine) WatchOnce(ctx context.Context, name string) error {
	_, _, _, err := e.watchOnce(ctx, name)
	return err
}

// PolicyPause sets how often the server is asked whether it may evict keys.
func PolicyPause(d time.Duration) Option { return func(o *options) { o.policyPause = d } }
