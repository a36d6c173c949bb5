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
)

// watches are the names that are watched through one engine.
type watches struct {
	store *store
	start func(task func(context.Context)) error // starts a goroutine of the engine's

	mu     sync.RWMutex // guards what follows
	byName map[string]*watch
}

// A watch is one watched name. Its goroutine ends with the last watcher, or with the
// engine.
type watch struct {
	name     string
	watchers map[chan struct{}]struct{} // guarded by watches.mu
	ready    chan struct{}              // closed once the line publishes departures
	ended    chan struct{}              // closed by the goroutine at its end
	refused  error                      // why the line publishes nothing; written before ended is closed
	stop     context.CancelFunc
}

var errClosed = errors.New("redislock: engine is closed")

func newWatches(s *store, start func(func(context.Context)) error) *watches {
	return &watches{store: s, start: start, byName: map[string]*watch{}}
}

// watch returns a channel that receives after departures from name, and is closed when
// ctx ends.
func (ws *watches) watch(ctx context.Context, name string) (<-chan struct{}, error) {
	out := make(chan struct{}, 1) // closed by remove, under mu
	w, err := ws.add(name, out)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
	case <-w.ended:
		ws.remove(w, out)
		return nil, cmp.Or(w.refused, errClosed)
	case <-ctx.Done():
		ws.remove(w, out)
		return nil, ctx.Err()
	}
	context.AfterFunc(ctx, func() { ws.remove(w, out) })
	return out, nil
}

func (ws *watches) add(name string, out chan struct{}) (*watch, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byName[name]
	if w == nil {
		w = &watch{name: name, watchers: map[chan struct{}]struct{}{}, ready: make(chan struct{}), ended: make(chan struct{})}
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		err := ws.start(func(engine context.Context) {
			defer close(w.ended)
			defer context.AfterFunc(engine, w.stop)()
			ws.run(ctx, w)
		})
		if err != nil {
			w.stop()
			return nil, err
		}
		ws.byName[name] = w
	}
	w.watchers[out] = struct{}{}
	return w, nil
}

func (ws *watches) remove(w *watch, out chan struct{}) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(w.watchers, out)
	close(out)
	if len(w.watchers) > 0 {
		return
	}
	w.stop()
	if ws.byName[w.name] == w {
		delete(ws.byName, w.name)
	}
}

// run keeps a name watched until ctx ends. It renews the request whenever the
// subscription is established, since messages may have been missed before.
func (ws *watches) run(ctx context.Context, w *watch) {
	sub := ws.store.subscriptions.Open(ws.store.Keys.Departures(w.name), func(string) { ws.notify(w.name) })
	if sub == nil {
		return
	}
	defer sub.Release(0)
	var last, end string
	for ready := false; ctx.Err() == nil; {
		generation, changed, err := sub.State()
		if err != nil && !ready {
			w.refused = err
			return
		}
		pause := watchRenew
		if generation != 0 {
			seen, until, next, err := ws.store.watchOnce(ctx, w.name)
			switch {
			case err != nil:
				pause = watchRenew / 10
			case !ready:
				ready, last = true, seen
				close(w.ready)
			case seen != last:
				last = seen
				ws.notify(w.name)
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
	ws.store.endWatch(w.name, end)
}

// notify wakes the present watchers of name. The subscription may have been made for
// earlier ones.
func (ws *watches) notify(name string) {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	w := ws.byName[name]
	if w == nil {
		return
	}
	for out := range w.watchers {
		driverkit.Signal(out)
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
func (s *store) endWatch(name, end string) {
	if end == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.run(ctx, watchScript, s.Keys.Of(name).All(), "0", end)
}
