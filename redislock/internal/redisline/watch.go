package redisline

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// A line publishes departures for watchFor after a request, which is renewed every
// watchRenew; a renewal also finds a holder that has died, of which no message tells.
const (
	watchFor   = 10 * time.Second
	watchRenew = 3 * time.Second
	watchEnd   = time.Second // how long a watch that ends waits for the store
)

// watches are the names that are watched through one engine.
type watches struct {
	store    *store
	watchers driverkit.Watchers

	mu     sync.Mutex // guards what follows; taken under the mutex of watchers
	byName map[string]*watch
}

// A watch is one watched name. Its goroutine ends with the last watcher, or with the
// engine.
type watch struct {
	ready   chan struct{} // closed once the line publishes departures
	ended   chan struct{} // closed by the goroutine at its end
	refused error         // why the line publishes nothing; written before ended is closed
	stop    context.CancelFunc
}

var errClosed = errors.New("redislock: engine is closed")

func newWatches(s *store) *watches {
	ws := &watches{store: s, byName: map[string]*watch{}}
	ws.watchers.First, ws.watchers.Last = ws.begin, ws.end
	return ws
}

// watch returns a channel that receives after departures from name, and is closed when
// ctx ends.
func (ws *watches) watch(ctx context.Context, name string) (_ <-chan struct{}, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel() // ends the watcher
		}
	}()
	out := ws.watchers.Watch(ctx, name, 0)
	w := ws.find(name)
	if w == nil { // the watcher has ended with ctx
		return nil, ctx.Err()
	}
	select {
	case <-w.ready:
		return out, nil
	case <-w.ended:
		return nil, cmp.Or(w.refused, errClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (ws *watches) find(name string) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byName[name]
}

// begin starts the watch of a name that has its first watcher.
func (ws *watches) begin(name string) {
	w := &watch{ready: make(chan struct{}), ended: make(chan struct{})}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.byName[name] = w
	err := ws.store.sessions.Go(func(engine context.Context) {
		defer close(w.ended)
		defer context.AfterFunc(engine, w.stop)()
		ws.run(ctx, name, w)
	})
	if err != nil {
		close(w.ended)
	}
}

// end ends the watch of a name that has no watcher any more.
func (ws *watches) end(name string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.byName[name].stop()
	delete(ws.byName, name)
}

// run keeps a name watched until ctx ends. It renews the request whenever the
// subscription is established, since messages may have been missed before.
func (ws *watches) run(ctx context.Context, name string, w *watch) {
	sub := ws.store.subscriptions.Open(ws.store.Keys.Departures(name), func(string) { ws.watchers.Notify(name) })
	if sub == nil {
		return
	}
	defer sub.Release(0)
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a renewal under way tells what is to be withdrawn
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(watchEnd, cancel) })()
	var last, end string
	for ready := false; ctx.Err() == nil; {
		generation, changed, err := sub.State()
		if err != nil && !ready {
			w.refused = err
			return
		}
		pause := watchRenew
		if generation != 0 {
			seen, until, next, err := ws.store.watchOnce(calls, name)
			switch {
			case err != nil:
				pause = watchRenew / 10
			case !ready:
				ready, last = true, seen
				close(w.ready)
			case seen != last:
				last = seen
				ws.watchers.Notify(name)
			}
			if err == nil {
				end, pause = until, min(pause, next)
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	if now := ws.find(name); now == nil || now == w { // or another watch has begun, which needs the request
		ws.store.endWatch(calls, name, end)
	}
}

// watchOnce has departures from name published for another while. It returns what
// identifies the holder, until when departures are published, and the time until the
// hold expires, or a long time.
func (s *store) watchOnce(ctx context.Context, name string) (seen, until string, next time.Duration, err error) {
	r, err := s.run(ctx, watchScript, s.Keys.Of(name).All(), strconv.FormatInt(watchFor.Milliseconds(), 10))
	if err != nil {
		return "", "", 0, err
	}
	if len(r.Array) != 3 {
		return "", "", 0, errBadReply
	}
	next = watchFor
	if left := r.Array[1].Int; left > 0 {
		next = millis(left + 1)
	}
	return r.Array[0].Text, r.Array[2].Text, next, nil
}

// endWatch withdraws the request if no other watcher has renewed it. If that fails, the
// request expires.
func (s *store) endWatch(ctx context.Context, name, end string) {
	if end == "" {
		return
	}
	_, _ = s.run(ctx, watchScript, s.Keys.Of(name).All(), "0", end)
}
