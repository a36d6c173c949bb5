package etcdstore

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Notify sends to the channel after keys of a range were deleted; several deletions may
// be sent as one. After a watch that broke it sends once, because deletions may have
// been missed. The channel is closed when ctx ends, the store is closed, or the right
// to watch is withdrawn.
func (s *Store) Notify(ctx context.Context, keys Range) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.tasks.ctx, cancel)
	end := func() { stop(); cancel() }
	w, err := s.WatchStarted(ctx, keys, MaxCallTimeout)
	if err != nil {
		end()
		return nil, err
	}
	deleted := make(chan struct{}, 1) // closed by the task below
	if !s.tasks.start(func() {        // ends with ctx or with the store
		defer end() // also ends w
		defer close(deleted)
		for {
			w.relay(ctx, deleted)
			w.Close()
			if w = s.watchAgain(ctx, keys); w == nil {
				return
			}
			driverkit.Signal(deleted)
		}
	}) {
		end()
		return nil, errWatchEnded
	}
	return deleted, nil
}

// relay sends what w reports until the watch breaks or ctx ends.
func (w *Watch) relay(ctx context.Context, deleted chan<- struct{}) {
	for {
		select {
		case r, open := <-w.Responses:
			if w.Accept(r, open) != nil {
				return
			}
			driverkit.Signal(deleted)
		case <-ctx.Done():
			return
		}
	}
}

// watchAgain starts a watch after another broke. It returns nil when ctx has ended or
// the watch is denied.
func (s *Store) watchAgain(ctx context.Context, keys Range) *Watch {
	for ctx.Err() == nil {
		w, err := s.WatchStarted(ctx, keys, MaxCallTimeout)
		if err == nil {
			return w
		}
		if errors.Is(err, driver.ErrDenied) {
			return nil
		}
		driverkit.Pause(ctx, retryPause)
	}
	return nil
}
