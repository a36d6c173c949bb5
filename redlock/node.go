package redlock

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"sync"

	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/redislock/rueidis" // the redis scheme
)

var errClosed = fmt.Errorf("redlock: engine is closed: %w", driver.ErrGone)

// A node is the engine of one server that a URL names. It connects when it is first
// used, so that a quorum can be opened while a minority of its servers is down.
type node struct {
	name   string
	url    *url.URL
	dialer driver.Dialer   // of its connections; nil: TCP
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	connecting chan struct{} // holds one element while a caller connects
	mu         sync.Mutex    // guards what follows
	engine     driver.Engine // nil: not connected yet
	closed     bool
}

func newNode(name string, u *url.URL) *node {
	n := &node{name: name, url: u, connecting: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// connected returns the server's engine; nil: not connected yet.
func (n *node) connected() (driver.Engine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed
	}
	return n.engine, nil
}

// connect returns the server's engine, after connecting to the server if need be.
func (n *node) connect(ctx context.Context) (driver.Engine, error) {
	if e, err := n.connected(); e != nil || err != nil {
		return e, err
	}
	select {
	case n.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-n.connecting }()
	if e, err := n.connected(); e != nil || err != nil {
		return e, err
	}
	open, ok := driver.Lookup("redis")
	if !ok {
		return nil, fmt.Errorf("redlock: no engine for redis:// is linked: %w", driver.ErrUnsupported)
	}
	ctx, cancel := n.untilClosed(ctx)
	defer cancel()
	e, err := open(driver.WithDialer(ctx, n.dialer), n.url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, driver.Join(errClosed, e.Close())
	}
	n.engine = e
	return e, nil
}

// untilClosed returns a context that ends with ctx or when the node is closed.
func (n *node) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// runID connects to the server and returns its run ID. It returns "" if the server does
// not tell it: the first session then fails for the same reason, and says so.
func (n *node) runID(ctx context.Context) (string, error) {
	e, err := n.connect(ctx)
	if err != nil {
		return "", err
	}
	server, ok := e.(interface {
		RunID(ctx context.Context) (string, error)
	})
	if !ok {
		return "", nil
	}
	ctx, cancel := n.untilClosed(ctx)
	defer cancel()
	id, _ := server.RunID(ctx)
	return id, nil
}

// Features returns the features of a Redis server.
func (n *node) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile, Store: "redis"}
}

func (n *node) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	e, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	return e.Open(ctx, o)
}

func (n *node) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	e, err := n.connect(ctx)
	if err != nil {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, err) }
	}
	return e.List(ctx, prefix)
}

func (n *node) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	e, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	return e.Line(ctx, name)
}

func (n *node) Evict(ctx context.Context, x driver.Entry) error {
	e, err := n.connect(ctx)
	if err != nil {
		return err
	}
	return e.Evict(ctx, x)
}

func (n *node) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	e, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	w, ok := e.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	return w.Watch(ctx, name)
}

func (n *node) Close() error {
	n.mu.Lock()
	e, closed := n.engine, n.closed
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.tasks.Wait()
	if closed || e == nil {
		return nil
	}
	return e.Close()
}

var _ driver.Watcher = (*node)(nil)
