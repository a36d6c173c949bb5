package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Engine keeps lines of claims in ZooKeeper. It is safe for concurrent use.
type Engine struct {
	options
	root, lines, records, desks string // paths

	main    *link // for what belongs to no session; on a connection of the user's, for all
	borrow  bool  // main is the user's
	servers []string

	begun  context.Context // ends when Close begins
	finish context.CancelFunc
	tasks  sync.WaitGroup // goroutines of the engine; Close waits for them

	mu       sync.Mutex // guards what follows
	closed   bool
	sessions map[*session]struct{}
	stand    []error // why claims of sessions that have ended still stand
	server   serverClock
	swept    instant // when ended records were last looked for
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// mainTimeout is the session timeout of the connection that belongs to no session.
const mainTimeout = 10 * time.Second

// Connect returns an engine on the servers at these addresses, each host or
// host:port. It connects once for itself, and once more for every session: then
// each has the TTL it asked for, and ends alone. It fails as soon as no server
// answers, or where the path cannot be used.
func Connect(ctx context.Context, servers []string, opts ...Option) (*Engine, error) {
	if len(servers) == 0 {
		return nil, errors.New("zklock: no servers")
	}
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	if e.creator && e.user == "" {
		return nil, errors.New("zklock: CreatorOnly needs Digest: without a user nobody is the creator")
	}
	e.servers = servers
	if e.main, err = e.connect(ctx, mainTimeout, false); err != nil {
		return nil, fmt.Errorf("zklock: %w", err)
	}
	if err := e.prepare(ctx, e.main, nil); err != nil {
		e.main.close()
		return nil, fmt.Errorf("zklock: path %s: %w", e.root, err)
	}
	return e, nil
}

// New returns an engine on a connection of the user's, which was made with the
// option of hook, and of no other engine. All sessions live by its ZooKeeper
// session: their TTL is three quarters of its timeout, whatever was asked for. A
// longer one is refused by package pawl. Close leaves the connection open.
func New(conn *zk.Conn, hook *Hook, opts ...Option) (*Engine, error) {
	if hook == nil || hook.l.conn != conn {
		return nil, errors.New("zklock: the connection was not made with the option of this hook")
	}
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	if e.user != "" || e.dial != nil {
		return nil, errors.New("zklock: user, password and dialer belong to the connection: give them there")
	}
	e.main, e.borrow = hook.l, true
	return e, nil
}

func newEngine(opts []Option) (*Engine, error) {
	e := &Engine{options: options{path: "/pawl"}, sessions: map[*session]struct{}{}}
	for _, o := range opts {
		o(&e.options)
	}
	if err := checkPath(e.path); err != nil {
		return nil, fmt.Errorf("zklock: path %q %w", e.path, err)
	}
	e.root = e.path
	if e.prefix != "" {
		e.root += "/p-" + encode(e.prefix)
	}
	e.lines, e.records, e.desks = e.root+"/lines", e.root+"/records", e.root+"/desks"
	e.begun, e.finish = context.WithCancel(context.Background())
	return e, nil
}

// Features reports that ZooKeeper can do everything.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Durable, BySession: true}
}

// connect makes a connection of the engine's own and waits until it is good.
func (e *Engine) connect(ctx context.Context, timeout time.Duration, once bool) (*link, error) {
	l := newLink(e.dial, len(e.servers))
	l.once, l.ask = once, timeout
	conn, events, err := zk.Connect(e.servers, timeout, l.option,
		zk.WithHostProvider(&hosts{}), zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithMaxConnBufferSize(maxFrame))
	if err != nil {
		return nil, err
	}
	l.conn, l.events = conn, events
	err = l.ready(ctx, nil)
	if err == nil && e.user != "" {
		err = l.do(ctx, nil, func(c *zk.Conn) error { return c.AddAuth("digest", []byte(e.user+":"+e.password)) })
	}
	if err != nil {
		e.drop(l)
		return nil, err
	}
	return l, nil
}

// maxFrame is the largest request: a record with room to spare. The library takes
// its default of a megabyte and a half at once.
const maxFrame = 512 << 10

// drop closes a link that nobody waits for; Close does.
func (e *Engine) drop(l *link) {
	if !e.begin() {
		l.close()
		return
	}
	go func() {
		defer e.tasks.Done()
		l.close()
	}()
}

// silent keeps the library from writing to the program's log.
type silent struct{}

func (silent) Printf(string, ...any) {}

// begin counts a goroutine in, unless the engine is closed.
func (e *Engine) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.tasks.Add(1)
	return true
}

// check says whether a call may go out.
func (e *Engine) check(ctx context.Context) error {
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

// prepare makes the nodes that all names share, where they are missing.
func (e *Engine) prepare(ctx context.Context, l *link, f *life) error {
	for _, leaf := range []string{e.lines, e.records, e.desks} {
		err := l.do(ctx, f, func(c *zk.Conn) error { // also shows whether we may read there
			_, _, err := c.Children(leaf)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			err = e.makePath(ctx, l, f, leaf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makePath makes a node and those above it that are missing.
func (e *Engine) makePath(ctx context.Context, l *link, f *life, path string) error {
	create := func() error {
		return l.do(ctx, f, func(c *zk.Conn) error {
			_, err := c.Create(path, nil, zk.FlagPersistent, e.acl())
			return err
		})
	}
	err := create()
	if up := path[:len(path)-len(base(path))-1]; errors.Is(err, zk.ErrNoNode) && up != "" {
		if err = e.makePath(ctx, l, f, up); err != nil {
			return err
		}
		err = create()
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Close ends the sessions that are still open with all their claims, and what the
// engine started. It bounds itself: where the servers do not answer, the claims
// stay until their lives end, on a connection of the user's as long as that lives.
// The error says so.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		e.tasks.Wait()
		return nil
	}
	e.closed = true
	open := make([]*session, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	e.finish()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	errs := make([]error, len(open))
	var ends sync.WaitGroup
	for i, s := range open {
		ends.Go(func() { errs[i] = s.end(ctx) })
	}
	ends.Wait()
	e.tasks.Wait()
	if !e.borrow {
		e.main.close()
		return driver.Join(errs...)
	}
	e.main.release()
	e.mu.Lock()
	defer e.mu.Unlock()
	return driver.Join(e.stand...) // also of sessions that were closed before
}

const closeTimeout = 2 * time.Second
