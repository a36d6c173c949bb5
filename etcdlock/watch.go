package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// errDeaf says that a watch has ended by itself: by a compaction, or because its
// member has lost the leader. Another one can be had.
var errDeaf = errors.New("etcdlock: a watch has ended")

// An ear is told of keys that are deleted. All ears of a client share one stream;
// one that stands on a member without a leader ends instead of being silent.
type ear struct {
	e      *Engine
	stream int  // the number of the stream it is told over
	span   span // to empty: one key
	told   clientv3.WatchChan
	since  int64 // the revision from which on it is told
	cancel context.CancelFunc
}

// around is the span to listen to so as to hear of every one of way.
func (r span) around(way []mark) span {
	if len(way) == 1 {
		return span{from: way[0].key}
	}
	return r.parts()
}

// listen returns once the store has begun to tell, which it must within limit.
func (e *Engine) listen(ctx context.Context, on span, limit time.Duration) (*ear, error) {
	own, cancel := context.WithCancel(ctx)
	stale := time.AfterFunc(limit, cancel)
	opts := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()}
	if on.to != "" {
		opts = append(opts, clientv3.WithRange(on.to))
	}
	h := &ear{e: e, span: on, cancel: cancel}
	var over context.Context
	over, h.stream = e.over(own)
	h.told = e.client.Watch(over, on.from, opts...)
	r, open := <-h.told
	if !stale.Stop() && ctx.Err() == nil {
		h.doubt()
		cancel()
		return nil, errDeaf
	}
	if err := h.fault(r, open); err != nil {
		cancel()
		return nil, errors.Join(err, ctx.Err())
	}
	h.since = r.Header.Revision
	return h, nil
}

func (h *ear) close() {
	if h != nil {
		h.cancel()
	}
}

// ears is what h hears; nobody's ears hear nothing.
func (h *ear) ears() clientv3.WatchChan {
	if h == nil {
		return nil
	}
	return h.told
}

// hears reports whether h would be told of every one of way.
func (h *ear) hears(way []mark) bool {
	for _, m := range way {
		if h == nil || m.key != h.span.from && !h.span.holds(m.key) {
			return false
		}
	}
	return true
}

// fault is what is wrong with a watch that answered r.
func (h *ear) fault(r clientv3.WatchResponse, open bool) error {
	if !open {
		return errDeaf
	}
	return classify(context.Background(), r.Err())
}

// rest waits a little before a watch that broke is opened again.
func (e *Engine) rest(ctx context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-e.begun.Done():
	}
}

// watchPatience is how long Watch waits for its beginning.
const watchPatience = 5 * time.Second

// Watch tells of departures from name's line. After a watch that broke it tells
// once, since it cannot know what it missed.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.alive(ctx); err != nil {
		return nil, err
	}
	line := e.space.line(name)
	h, err := e.listen(ctx, line, watchPatience)
	if err != nil {
		return nil, err
	}
	told := make(chan struct{}, 1) // closed by the goroutine below
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		h.close()
		return nil, errClosed
	}
	e.tasks.Go(func() { // ends with ctx or with the engine, whose Close waits for it
		defer close(told)
		for e.relay(ctx, h, told) {
			h.close()
			for h, err = e.listen(ctx, line, watchPatience); err != nil; h, err = e.listen(ctx, line, watchPatience) {
				if errors.Is(err, driver.ErrDenied) || ctx.Err() != nil || e.begun.Err() != nil {
					return
				}
				e.rest(ctx)
			}
			tell(told)
		}
		h.close()
	})
	return told, nil
}

// relay tells of what h hears until it breaks (true) or ctx ends.
func (e *Engine) relay(ctx context.Context, h *ear, told chan<- struct{}) (broken bool) {
	for {
		select {
		case r, open := <-h.told:
			if h.fault(r, open) != nil {
				return ctx.Err() == nil && e.begun.Err() == nil
			}
			tell(told)
		case <-ctx.Done():
			return false
		case <-e.begun.Done():
			return false
		}
	}
}

func tell(told chan<- struct{}) {
	select {
	case told <- struct{}{}:
	default: // told already
	}
}
