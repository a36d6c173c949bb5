package etcdstore

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// errWatchEnded says that a watch has ended by itself: by a compaction, or because its
// member has lost the leader. Another watch can be started.
var errWatchEnded = fmt.Errorf("%w: a watch has ended", driver.ErrUnreachable)

// retryPause is the time between the end of a watch and the start of the next.
const retryPause = 200 * time.Millisecond

// A Watch reports keys that are deleted. All watches of a store share one stream. A
// nil watch is closed, not ready, and covers nothing.
type Watch struct {
	store   *Store
	keys    Range
	cancel  context.CancelFunc
	Started chan struct{} // closed when the watch has started or failed to; what follows is known then

	Err       error              // why it failed to start
	Responses clientv3.WatchChan // what it reports; each response is given to Accept
	Revision  int64              // nothing up to this revision will be reported any more
	cluster   uint64             // the cluster that counted it
	stream    int
}

// Watch starts a watch in the background and returns at once. The watch ends with ctx.
// A start fails when the stream has been silent for limit: a stream starts one watch
// after the other, so that many at once may take long.
func (s *Store) Watch(ctx context.Context, keys Range, limit time.Duration) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{store: s, keys: keys, cancel: cancel, Started: make(chan struct{})}
	// The task ends when the watch has started or failed to, or when Close no longer waits for that.
	if !s.tasks.start(func() { w.start(ctx, limit) }) {
		cancel()
		w.Err = errWatchEnded
		close(w.Started)
	}
	return w
}

// WatchStarted starts a watch and returns when it has started.
func (s *Store) WatchStarted(ctx context.Context, keys Range, limit time.Duration) (*Watch, error) {
	w := s.Watch(ctx, keys, limit)
	select {
	case <-w.Started:
		return w, w.Err
	case <-ctx.Done():
		w.cancel()
		return w, driver.Join(errWatchEnded, ctx.Err())
	}
}

// start starts the watch. A stream keeps the token it was opened with. Once that token
// has expired, the server refuses every further watch over the stream, though it still
// serves the others; so a refusal counts only over a new stream.
func (w *Watch) start(ctx context.Context, limit time.Duration) {
	defer close(w.Started)
	if w.tryStart(ctx, limit) && w.store.streams.replaceRefusing(w.stream) {
		w.tryStart(ctx, limit)
	}
	if w.Err != nil {
		w.cancel()
	}
}

// tryStart starts the watch over the present stream, and reports whether it was
// refused. The end of ctx does not interrupt the start, for the reason given at
// stream.release; it ends the watch once that has started.
func (w *Watch) tryStart(ctx context.Context, limit time.Duration) (refused bool) {
	opts := w.keys.options([]clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()})
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(w.store.untilClosed, end)()
	streams := w.store.streams
	over, number, started := streams.join(own)
	defer started()
	w.stream, w.Err = number, nil
	answered, silent := make(chan struct{}), make(chan bool, 1)
	go func() { silent <- streams.endIfSilent(number, limit, answered, end) }() // waited for below
	w.Responses = w.store.client.Watch(over, w.keys.From, opts...)              // returns when the server has answered, or after end
	r, open := <-w.Responses
	close(answered)
	context.AfterFunc(ctx, end)
	if <-silent {
		w.Distrust()
		w.Err = errWatchEnded
		return false
	}
	if err := w.Accept(r, open); err != nil {
		w.Err = driver.Join(err, ctx.Err())
		return open && r.Canceled && r.CompactRevision == 0
	}
	w.Revision, w.cluster = r.Header.Revision, r.Header.ClusterId
	streams.responded(number, response{at: time.Now(), revision: w.Revision, cluster: w.cluster})
	return false
}

// Accept records a response, and returns what is wrong with it.
func (w *Watch) Accept(r clientv3.WatchResponse, open bool) error {
	if !open {
		return errWatchEnded
	}
	if n := len(r.Events); n > 0 {
		w.Revision = max(w.Revision, r.Events[n-1].Kv.ModRevision)
	}
	return classify(context.Background(), r.Err())
}

// Close ends the watch. It may be called twice.
func (w *Watch) Close() {
	if w != nil {
		w.cancel()
	}
}

// Ready reports whether the watch has started.
func (w *Watch) Ready() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.Started:
		return w.Err == nil
	default:
		return false
	}
}

// Covers reports whether the watch reports the deletion of key.
func (w *Watch) Covers(key string) bool { return w != nil && w.keys.Holds(key) }

// Distrust says that the watch did not report a change that it should have reported:
// later watches use another stream.
func (w *Watch) Distrust() {
	if w != nil {
		w.store.streams.replace(w.stream)
	}
}
