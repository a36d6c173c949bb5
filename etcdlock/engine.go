package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// defaultPrefix is where keys are kept when nobody says otherwise.
const defaultPrefix = "pawl"

// closeTimeout bounds how long Close waits for the cluster.
const closeTimeout = 2 * time.Second

// Engine keeps lines of claims in etcd. It is safe for concurrent use.
type Engine struct {
	client *clientv3.Client
	space  space
	owned  bool // the client was made for this engine

	begun  context.Context // ends when Close begins
	finish context.CancelFunc
	waited context.Context // ends when Close waits no longer for watches to begin
	giveUp context.CancelFunc
	tasks  sync.WaitGroup // the engine's goroutines; Close waits for them

	mu       sync.Mutex // guards what follows
	sessions map[*session]struct{}
	stream   stream
	heads    map[string]*head // by name
	closed   bool
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

var errClosed = errors.New("etcdlock: engine is closed")

// An Option changes how an engine uses its cluster.
type Option func(*options)

type options struct{ prefix string }

// Prefix has all keys begin with p and a slash, so that several users of one
// cluster do not meet. It is "pawl" unless it is set, and may be empty.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// New returns an engine on the user's client, which it does not close. It panics
// if the prefix is not valid UTF-8 without control characters, or contains one
// of the engine's own words.
//
// A client without keepalive (DialKeepAliveTime) finds out only after minutes
// that its connection is dead; leases end in time all the same, but nothing can
// be locked until then.
func New(client *clientv3.Client, opts ...Option) *Engine {
	o := options{prefix: defaultPrefix}
	for _, opt := range opts {
		opt(&o)
	}
	p, err := newSpace(o.prefix)
	if err != nil {
		panic("etcdlock: " + err.Error())
	}
	e := &Engine{client: client, space: p, sessions: map[*session]struct{}{}, heads: map[string]*head{}}
	e.begun, e.finish = context.WithCancel(context.Background())
	e.waited, e.giveUp = context.WithCancel(context.Background())
	return e
}

// Features reports that an etcd engine can do everything.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Durable, BySession: true}
}

// Open starts a session: one lease for all its claims. The TTL is rounded up to
// whole seconds, and to what the server keeps at least.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.alive(ctx); err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, patience(o.TTL))
	defer cancel()
	granted, err := e.client.Grant(call, int64((o.TTL+time.Second-1)/time.Second))
	if err != nil {
		return nil, classify(ctx, err)
	}
	s := &session{
		e: e, id: o.ID, lease: granted.ID, ttl: time.Duration(granted.TTL) * time.Second,
		spots: map[string]*spot{}, slots: map[slot]*use{}, met: map[string]bool{},
	}
	s.begun, s.finish = context.WithCancel(e.begun)
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.sessions[s] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		_ = s.Close(ctx) // a lease without keys ends by itself
		return nil, errClosed
	}
	return s, nil
}

// alive says whether a call may go out.
func (e *Engine) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	return nil
}

// Close ends the sessions that are still open with all their claims, and what
// the engine started. It bounds itself: a cluster that does not answer keeps the
// claims until they expire. A client that the user made stays open.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	open := make([]*session, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	last := e.stream
	e.mu.Unlock()
	e.finish()

	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, e.giveUp)()
	errs := make([]error, len(open), len(open)+1)
	var work sync.WaitGroup
	for i, s := range open {
		work.Go(func() { errs[i] = s.Close(ctx) })
	}
	work.Wait()
	last.release()
	e.tasks.Wait()
	if e.owned {
		errs = append(errs, e.closeClient())
	}
	if err := driver.Join(errs...); err != nil {
		return fmt.Errorf("etcdlock: close: %w", err)
	}
	return nil
}

// closeClient closes the client, or leaves it alone when that takes too long: what a
// client waits for may never come.
func (e *Engine) closeClient() error {
	closed := make(chan error, 1)
	go func() { closed <- e.client.Close() }() // ends with the client
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTimeout):
		return fmt.Errorf("%w: its client does not close", driver.ErrUnreachable)
	}
}
