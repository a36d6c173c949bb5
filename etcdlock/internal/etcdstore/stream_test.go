package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// delayedWatcher is a client's watcher whose calls wait for the test.
type delayedWatcher struct {
	clientv3.Watcher
	anchors chan context.Context // of the watches that keep a stream open
	starts  chan context.Context // of the others, when they are asked for
	proceed chan struct{}        // when closed, they are sent
	closes  chan struct{}        // when closed, Close ends
}

func (w *delayedWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if len(opts) == 0 {
		w.anchors <- ctx
		return w.Watcher.Watch(ctx, key)
	}
	w.starts <- ctx
	<-w.proceed
	return w.Watcher.Watch(ctx, key, opts...)
}

func (w *delayedWatcher) Close() error {
	<-w.closes
	return w.Watcher.Close()
}

// delayed returns a store whose watches start when the test says so.
func delayed(t *testing.T) (*Store, *delayedWatcher) {
	client := dial(t, testserver.Etcd(t).Addr())
	w := &delayedWatcher{Watcher: client.Watcher, anchors: make(chan context.Context, 9), starts: make(chan context.Context, 9),
		proceed: make(chan struct{}), closes: make(chan struct{})}
	client.Watcher = w
	return New(client, "anchor"), w
}

func closeStore(s *Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	return s.Close(ctx)
}

// A client of etcd can never be closed if one of its streams ends, with its last watch,
// while another watch is being refused over the same stream. So the watch that keeps a
// stream open ends last.
func TestAStreamEndsAfterTheWatchesThatStartOverIt(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(s *Store){
		"it is distrusted":    func(s *Store) { (&Watch{store: s, stream: 0}).Distrust() },
		"the store is closed": func(s *Store) { _ = closeStore(s) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, w := delayed(t)
			close(w.closes)
			defer closeStore(s)
			starts := begin(t, func() error { _, err := s.WatchStarted(t.Context(), Key("key"), time.Minute); return err })
			asked, anchor := <-w.starts, <-w.anchors
			ends := begin(t, func() error { end(s); return nil })
			select {
			case <-anchor.Done():
				t.Error("the stream ended while a watch was being started over it")
			case <-asked.Done():
				t.Error("a watch that was being started was cancelled: it may be refused while the stream ends")
			case <-time.After(200 * time.Millisecond):
			}
			close(w.proceed)
			within(t, starts, soon, "the watch that was being started")
			within(t, ends, soon, "the end of the stream")
			select {
			case <-anchor.Done():
			case <-time.After(soon):
				t.Error("the stream has not ended")
			}
		})
	}
}

func TestCloseDoesNotWaitForAClientThatDoesNotClose(t *testing.T) {
	t.Parallel()
	s, w := delayed(t)
	s.owned = true
	defer close(w.closes)
	closes := begin(t, func() error { return closeStore(s) })
	if err := within(t, closes, CloseTimeout+soon, "Close of a store whose client does not close"); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Close: %v", err)
	}
}

// A stream starts one watch after the other. Over a slow network many watches take
// longer than the limit of one, and none of them must take the stream for silent.
func TestManyWatchesOverASlowNetworkAllStart(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, testserver.Etcd(t).Addr())
	s := New(dial(t, p.Addr()), "anchor")
	defer closeStore(s)
	if _, err := s.Get(t.Context(), Key("key")); err != nil {
		t.Fatal(err)
	}
	const n, limit = 150, time.Second
	p.Delay(faultproxy.Both, 5*time.Millisecond)
	begun := time.Now()
	var all []<-chan error
	for range n {
		all = append(all, begin(t, func() error { _, err := s.WatchStarted(t.Context(), Key("key"), limit); return err }))
	}
	for _, one := range all {
		if err := within(t, one, 6*soon, "a watch"); err != nil {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	}
	if took := time.Since(begun); took < limit {
		t.Errorf("all started within %v: the test shows nothing", took)
	}
}
