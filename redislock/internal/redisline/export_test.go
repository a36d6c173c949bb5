package redisline

import "context"

// WatchOnce is one call of those that keep a name watched.
func (e *Engine) WatchOnce(ctx context.Context, name string) error {
	_, _, _, err := e.watchOnce(ctx, name)
	return err
}
