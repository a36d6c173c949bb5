package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// errDeaf says that a watch has ended by itself: by a compaction, or because its
// member has lost the leader. Another one can be had.
var errDeaf = fmt.Errorf("%w: a watch has ended", driver.ErrUnreachable)

// An ear is told of keys that are deleted. All ears of a client share one stream;
// one that stands on a member without a leader ends instead of being silent.
type ear struct {
	e      *Engine
	span   span // to empty: one key
	cancel context.CancelFunc
	begun  chan struct{} // closed when it is told, or never will be; what follows is known then

	fault   error // why it never will be
	stream  int   // the number of the stream it is told over
	told    clientv3.WatchChan
	since   int64  // the revision up to which nothing more is told
	cluster uint64 // whose revisions these are
}

// around is the span to listen to so as to hear of every one of way.
func (r span) around(way []mark) span {
	if len(way) == 1 {
		return span{from: way[0].key}
	}
	return r.parts()
}

// listen returns once the store has begun to tell, which it does until ctx ends. It
// gives up when the stream has been silent for limit: a stream begins one watch
// after the other, and many in a row may take long.
func (e *Engine) listen(ctx context.Context, on span, limit time.Duration) (*ear, error) {
	h := e.attend(ctx, on, limit)
	select {
	case <-h.begun:
		return h, h.fault
	case <-ctx.Done():
		h.cancel()
		return h, driver.Join(errDeaf, ctx.Err())
	}
}

// attend returns at once, with an ear that begins to be told as soon as it can be, and
// ends with ctx.
func (e *Engine) attend(ctx context.Context, on span, limit time.Duration) *ear {
	ctx, cancel := context.WithCancel(ctx)
	h := &ear{e: e, span: on, cancel: cancel, begun: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		cancel()
		h.fault = errDeaf
		close(h.begun)
		return h
	}
	e.tasks.Go(func() { h.begin(ctx, limit) }) // ends when it is told or refused, or when Close has waited for that
	return h
}

// begin has h be told. A stream keeps the token it was opened with, and one whose token
// has expired refuses every further watch, though it goes on telling of the others; so
// a refusal is believed only of a stream that is new.
func (h *ear) begin(ctx context.Context, limit time.Duration) {
	defer close(h.begun)
	if h.try(ctx, limit) && h.renewed() {
		h.try(ctx, limit)
	}
	if h.fault != nil {
		h.cancel()
	}
}

// try begins a watch over the engine's present stream, and reports whether that was
// refused. The end of ctx does not call it off, but ends the watch that has begun: see
// release.
func (h *ear) try(ctx context.Context, limit time.Duration) (refused bool) {
	opts := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()}
	if h.span.to != "" {
		opts = append(opts, clientv3.WithRange(h.span.to))
	}
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(h.e.waited, end)()
	over, number, begun := h.e.over(own)
	defer begun()
	h.stream, h.fault = number, nil
	var silence alarm
	silence.set(limit, func() bool { return h.e.silent(number, limit) }, end)
	h.told = h.e.client.Watch(over, h.span.from, opts...)
	r, open := <-h.told
	context.AfterFunc(ctx, end)
	if silence.off() {
		h.doubt()
		h.fault = errDeaf
		return false
	}
	if err := h.take(r, open); err != nil {
		h.fault = driver.Join(err, ctx.Err())
		return open && r.Canceled && r.CompactRevision == 0
	}
	h.since, h.cluster = r.Header.Revision, r.Header.ClusterId
	h.e.heard(number, sign{at: time.Now(), revision: h.since, cluster: h.cluster})
	return false
}

func (h *ear) close() {
	if h != nil {
		h.cancel()
	}
}

// ready reports whether h is told.
func (h *ear) ready() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.begun:
		return h.fault == nil
	default:
		return false
	}
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

// take takes in what h was told, and returns what is wrong with it.
func (h *ear) take(r clientv3.WatchResponse, open bool) error {
	if !open {
		return errDeaf
	}
	if n := len(r.Events); n > 0 {
		h.since = max(h.since, r.Events[n-1].Kv.ModRevision)
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
			if h.take(r, open) != nil {
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
