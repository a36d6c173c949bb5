package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// watcher is a client's, which a test holds up.
type watcher struct {
	clientv3.Watcher
	anchors chan context.Context // of the watches that keep a stream open
	begins  chan context.Context // of the others, when they are asked for
	held    chan struct{}        // when closed, they go on
	closes  chan struct{}        // when closed, Close ends
}

func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if len(opts) == 0 {
		w.anchors <- ctx
		return w.Watcher.Watch(ctx, key)
	}
	w.begins <- ctx
	<-w.held
	return w.Watcher.Watch(ctx, key, opts...)
}

func (w *watcher) Close() error {
	<-w.closes
	return w.Watcher.Close()
}

// heldUp returns an engine on a client whose watches begin when the test says so.
func heldUp(t *testing.T) (*Engine, *watcher) {
	e := engine(t, []string{common(t).Addr()})
	w := &watcher{Watcher: e.client.Watcher, anchors: make(chan context.Context, 9), begins: make(chan context.Context, 9),
		held: make(chan struct{}), closes: make(chan struct{})}
	e.client.Watcher = w
	return e, w
}

// A client of etcd that ends a stream with its last watch, while it is being refused
// another over it, can never be closed. So what keeps a stream open goes last.
func TestAStreamEndsAfterTheWatchesThatBeginOverIt(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(e *Engine){
		"it is doubted":        func(e *Engine) { (&ear{e: e, stream: 0}).doubt() },
		"the engine is closed": func(e *Engine) { _ = e.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, w := heldUp(t)
			close(w.closes)
			begins := begin(t, func() (*ear, error) { return e.listen(t.Context(), span{from: "key"}, unbeaten) })
			asked, anchor := <-w.begins, <-w.anchors
			ends := begin(t, func() (struct{}, error) { end(e); return struct{}{}, nil })
			select {
			case <-anchor.Done():
				t.Error("the stream has ended while a watch begins over it")
			case <-asked.Done():
				t.Error("a watch that begins is called off: it may be refused while the stream ends")
			case <-time.After(200 * time.Millisecond):
			}
			close(w.held)
			begins.within(t, soon, "the watch that begins")
			ends.within(t, soon, "the end of the stream")
			select {
			case <-anchor.Done():
			case <-time.After(soon):
				t.Error("the stream has not ended")
			}
		})
	}
}

// Close bounds itself, whatever the client waits for.
func TestCloseDoesNotWaitForAClientThatDoesNotClose(t *testing.T) {
	t.Parallel()
	e, w := heldUp(t)
	e.owned = true
	defer close(w.closes)
	closes := begin(t, func() (struct{}, error) { return struct{}{}, e.Close() })
	_, err := closes.within(t, closeTimeout+soon, "Close of an engine whose client does not close")
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Close: %v", err)
	}
}
