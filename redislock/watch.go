package redislock

import (
	"context"
	"strconv"
	"time"
)

// A line is watched for watchLife at a time, and asked for again in between; that
// also finds a holder who died, of which nobody sends word.
const (
	watchLife  = 10 * time.Second
	watchAgain = 3 * time.Second
)

// A watch is one name that somebody watches. Its goroutine ends with the last of
// them.
type watch struct {
	name string
	outs map[chan struct{}]struct{} // guarded by the engine's mu
	set  chan struct{}              // closed once the line is watched
	stop context.CancelFunc
}

// Watch tells of departures from name's line. Those that nobody tells of, an
// expiry or the leaving of another client of the plain recipe, are told when
// they are found: at the expiry, or within three seconds.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	out := make(chan struct{}, 1) // closed by unwatch, under mu
	w, err := e.watchName(name, out)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.set:
	case <-e.begun.Done():
		e.unwatch(w, out)
		return nil, errClosed
	case <-ctx.Done():
		e.unwatch(w, out)
		return nil, ctx.Err()
	}
	context.AfterFunc(ctx, func() { e.unwatch(w, out) })
	return out, nil
}

func (e *Engine) watchName(name string, out chan struct{}) (*watch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	w := e.watches[name]
	if w == nil {
		ctx, stop := context.WithCancel(e.begun)
		w = &watch{name: name, outs: map[chan struct{}]struct{}{}, set: make(chan struct{}), stop: stop}
		e.watches[name] = w
		e.tasks.Go(func() { e.keepWatch(ctx, w) }) // ends with ctx; Close waits for it
	}
	w.outs[out] = struct{}{}
	return w, nil
}

func (e *Engine) unwatch(w *watch, out chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(w.outs, out)
	close(out)
	if len(w.outs) > 0 {
		return
	}
	w.stop()
	if e.watches[w.name] == w {
		delete(e.watches, w.name)
	}
}

// tellWatchers tells those who watch name now. An ear may have been made for ones
// who watched it before.
func (e *Engine) tellWatchers(name string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	w := e.watches[name]
	if w == nil {
		return
	}
	for out := range w.outs {
		select {
		case out <- struct{}{}:
		default: // told already
		}
	}
}

// keepWatch keeps a line watched until ctx ends. It asks anew whenever the
// subscription begins, since word may have been missed before.
func (e *Engine) keepWatch(ctx context.Context, w *watch) {
	a, err := e.listen(told(e.keys.line(w.name)), func(string) { e.tellWatchers(w.name) })
	if err != nil {
		return
	}
	defer e.silence(a)
	var last, end string
	for set := false; ctx.Err() == nil; {
		now, changed, _ := e.state(a)
		pause := watchAgain
		if now != 0 {
			seen, until, next, err := e.watchOnce(ctx, w.name)
			switch {
			case err != nil:
				pause = watchAgain / 10
			case !set:
				set, last = true, seen
				close(w.set)
			case seen != last:
				last = seen
				e.tellWatchers(w.name)
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
	e.endWatch(w.name, end)
}

// watchOnce has departures told for a while more. It returns what is held now,
// until when it is watched, and when the hold ends, or a long time.
func (e *Engine) watchOnce(ctx context.Context, name string) (seen, until string, next time.Duration, err error) {
	args := e.keys.place(name).keys(strconv.FormatInt(watchLife.Milliseconds(), 10))
	r, err := e.run(ctx, watchScript, 4, args)
	if err != nil {
		return "", "", 0, err
	}
	if len(r.Array) != 3 {
		return "", "", 0, errNoReply
	}
	next = watchLife
	if left := r.Array[1].Int; left > 0 {
		next = millis(left + 1)
	}
	return r.Array[0].Text, r.Array[2].Text, next, nil
}

// endWatch takes back the request to be told, or lets it expire.
func (e *Engine) endWatch(name, end string) {
	if end == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = e.run(ctx, watchScript, 4, e.keys.place(name).keys("0", end))
}
