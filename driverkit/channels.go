package driverkit

import (
	"context"
	"time"
)

// Pause waits for d, or until ctx ends, and reports whether d has passed.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Signal sends to a channel that is buffered by one, unless a signal is pending there. It
// never blocks, and does nothing to a nil channel.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
