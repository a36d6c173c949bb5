package etcdstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// CloseTimeout bounds how long closing waits for the cluster, and then again for a
// client that the store owns.
const CloseTimeout = 2 * time.Second

// A Store is one client of a cluster. Its own calls, which belong to no lease, wait
// [MaxCallTimeout] for an answer. It is safe for concurrent use.
type Store struct {
	Calls
	owned   bool // the client was made for this store
	closed  sync.Once
	tasks   *tasks
	streams *streams
	grants  grants

	untilClosed context.Context // of what Close waits for; ends when it no longer does
	abandon     context.CancelFunc
}

// New returns a store on the user's client, which it does not close. anchorKey is a key
// that the client's user may read; the store watches it to keep its stream open.
func New(client *clientv3.Client, anchorKey string) *Store {
	s := &Store{Calls: Calls{client, MaxCallTimeout, new(atomic.Int32)}, tasks: newTasks()}
	s.streams = newStreams(client, anchorKey, s.tasks)
	s.untilClosed, s.abandon = context.WithCancel(context.Background())
	return s
}

// Dial connects to the cluster that config names and returns a store that owns its
// client.
func Dial(ctx context.Context, config clientv3.Config, anchorKey string) (*Store, error) {
	client, err := Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	s := New(client, anchorKey)
	s.owned = true
	return s, nil
}

// Share runs f for all callers that share c: see [SharedCall]. Its ctx ends with the
// store.
func (s *Store) Share(c *SharedCall, f func(ctx context.Context)) (done <-chan struct{}) {
	return c.start(s.tasks, f)
}

// RevokeLater ends a lease beside the caller, whose ctx may have ended. It tries for no
// longer than [MaxCallTimeout]; Close waits for it. A lease that stays ends by itself, so
// an error is ignored.
func (s *Store) RevokeLater(id clientv3.LeaseID) {
	if id != clientv3.NoLease {
		s.tasks.start(func() { _ = s.Revoke(s.untilClosed, id) }) // ends with the call
	}
}

// Close ends all watches and waits for the store's goroutines. Watches that are being
// started, and leases that are being revoked, are waited for until ctx ends. Later calls
// wait for the first and return nil.
func (s *Store) Close(ctx context.Context) (err error) {
	s.closed.Do(func() {
		s.tasks.close()
		defer context.AfterFunc(ctx, s.abandon)()
		s.streams.close()
		s.tasks.wait()
		if s.owned {
			err = s.closeClient()
		}
	})
	return err
}

// closeClient closes the client, but returns after CloseTimeout even if the client is
// stuck: its Close waits for its streams, which may never end.
func (s *Store) closeClient() error {
	closed := make(chan error, 1)
	go func() { closed <- s.client.Close() }() // ends with the client
	select {
	case err := <-closed:
		return err
	case <-time.After(CloseTimeout):
		return fmt.Errorf("%w: its client does not close", driver.ErrUnreachable)
	}
}
