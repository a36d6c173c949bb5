package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/zklock/internal/zkstore"

	"github.com/pawl-go/pawl/driverkit"
)

// Watch tells of departures from name's line. Where the servers could not be asked for a
// while it tells once, since a claim may have left.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	seen, w, err := e.countDepartures(ctx, e.linePath(name))
	if err != nil {
		return nil, err
	}
	departed := make(chan struct{}, 1)                  // closed by the goroutine below
	err = e.sessions.Go(func(closing context.Context) { // ends with ctx or the engine
		defer close(departed)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		e.followDepartures(ctx, e.linePath(name), seen, w, departed)
	})
	if err != nil {
		return nil, err
	}
	return departed, nil
}

// A departureCount is how many children a container has lost.
type departureCount struct {
	container int64 // the zxid that created it
	count     int64
}

// countDepartures reads the count and sets a watch that fires when it changes. A container
// that does not exist has the zero count.
func (e *Engine) countDepartures(ctx context.Context, path string) (departureCount, *zkstore.Watch, error) {
	for {
		w, err := e.main.Watch(ctx, zkstore.WatchKey{Path: path, Kind: zkstore.OnChildren})
		if err == nil {
			lost := (int64(uint32(w.Stat.Cversion)) - int64(w.Stat.NumChildren)) / 2
			return departureCount{w.Stat.Czxid, lost}, w, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return departureCount{}, nil, err
		}
		w, err = e.main.Watch(ctx, zkstore.WatchKey{Path: path, Kind: zkstore.OnCreate})
		if err != nil || !w.Exists {
			return departureCount{}, w, err
		}
	}
}

func (e *Engine) followDepartures(ctx context.Context, path string, seen departureCount, w *zkstore.Watch, departed chan<- struct{}) {
	for {
		select {
		case <-w.Fired():
		case <-ctx.Done():
			return
		}
		var now departureCount
		for {
			var err error
			if now, w, err = e.countDepartures(ctx, path); err == nil {
				break
			}
			if !driverkit.Pause(ctx, 100*time.Millisecond) { // the servers cannot be asked
				return
			}
		}
		created := seen.container == 0 && now.count == 0
		changed := now != seen && !created
		seen = now
		if !changed {
			continue
		}
		driverkit.Signal(departed)
	}
}
