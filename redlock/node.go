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

// A node is one server, connected to when it is first reached: a quorum opens
// also while a minority is down.
type node struct {
	name  string
	url   *url.URL
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	opening chan struct{} // holds one element while somebody connects
	mu      sync.Mutex    // guards what follows
	engine  driver.Engine
	closed  bool
}

func newNode(name string, u *url.URL) *node {
	n := &node{name: name, url: u, opening: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

func (n *node) known() (e driver.Engine, closed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine, n.closed
}

// reach returns the server's engine.
func (n *node) reach(ctx context.Context) (driver.Engine, error) {
	if e, closed := n.known(); e != nil || closed {
		return e, closedError(closed)
	}
	select {
	case n.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-n.opening }()
	if e, closed := n.known(); e != nil || closed {
		return e, closedError(closed)
	}
	open, ok := driver.Lookup("redis")
	if !ok {
		return nil, fmt.Errorf("redlock: no engine for redis:// is linked: %w", driver.ErrUnsupported)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	e, err := open(ctx, n.url)
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

// identify connects to the server and returns its run id; "" where it does not
// tell, which the first session finds out too and says why.
func (n *node) identify(ctx context.Context) (string, error) {
	e, err := n.reach(ctx)
	if err != nil {
		return "", err
	}
	if server, ok := e.(interface {
		RunID(ctx context.Context) (string, error)
	}); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(n.ctx, cancel)()
		run, _ := server.RunID(ctx)
		return run, nil
	}
	return "", nil
}

var errClosed = fmt.Errorf("redlock: engine is closed: %w", driver.ErrGone)

func closedError(closed bool) error {
	if closed {
		return errClosed
	}
	return nil
}

// Features are those of a Redis server.
func (n *node) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile}
}

func (n *node) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	e, err := n.reach(ctx)
	if err != nil {
		return nil, err
	}
	return e.Open(ctx, o)
}

func (n *node) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	e, err := n.reach(ctx)
	if err != nil {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, err) }
	}
	return e.List(ctx, prefix)
}

func (n *node) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	e, err := n.reach(ctx)
	if err != nil {
		return nil, err
	}
	return e.Line(ctx, name)
}

func (n *node) Evict(ctx context.Context, x driver.Entry) error {
	e, err := n.reach(ctx)
	if err != nil {
		return err
	}
	return e.Evict(ctx, x)
}

func (n *node) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	e, err := n.reach(ctx)
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
	n.end()
	n.tasks.Wait()
	if closed || e == nil {
		return nil
	}
	return e.Close()
}

var _ driver.Watcher = (*node)(nil)
