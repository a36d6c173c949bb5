package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// mainTimeout is the session timeout of the connection that belongs to no session.
const mainTimeout = 10 * time.Second

// Connect returns an engine on the servers at these addresses, each host or host:port. It
// has one connection of its own and one for every session, so that each session has the
// TTL it asked for and ends alone. Connect fails as soon as no server answers, and where
// the path cannot be used.
func Connect(ctx context.Context, servers []string, opts ...Option) (*Engine, error) {
	if len(servers) == 0 {
		return nil, errors.New("zklock: no servers")
	}
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	if e.creatorOnly && e.user == "" {
		return nil, errors.New("zklock: WithCreatorOnly needs WithDigest: without a user there is no creator")
	}
	e.servers = servers
	if e.main, err = e.connect(ctx, mainTimeout, false); err != nil {
		_ = e.sessions.Close() // waits for closeLater: there is no engine whose Close could
		return nil, fmt.Errorf("zklock: %w", err)
	}
	if err := e.prepare(ctx); err != nil {
		e.main.Close()
		return nil, fmt.Errorf("zklock: path %s: %w", e.root, err)
	}
	return e, nil
}

// New returns an engine on a connection of the user's that was made with the hook's option
// and belongs to no other engine. All sessions share its ZooKeeper session: their TTL is
// three quarters of its timeout, whatever was asked for; package pawl refuses to lock with
// a longer one. Close leaves the connection open.
func New(conn *zk.Conn, hook *Hook, opts ...Option) (*Engine, error) {
	if hook == nil || !hook.conn.IsOf(conn) {
		return nil, errors.New("zklock: the connection was not made with the option of this hook")
	}
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	if e.user != "" || e.dial != nil {
		return nil, errors.New("zklock: user, password and dialer belong to the connection: give them there")
	}
	e.main, e.borrowed = hook.conn, true
	return e, nil
}

func newEngine(opts []Option) (*Engine, error) {
	e := &Engine{
		options:  options{path: zkpath.Default},
		sessions: driverkit.NewSessions[*session]("zklock"), evictNodes: map[*zkstore.Session]*evictNode{},
	}
	for _, o := range opts {
		o(&e.options)
	}
	if err := zkpath.Check(e.path); err != nil {
		return nil, fmt.Errorf("zklock: path %q %w", e.path, err)
	}
	e.root = zkpath.Root(e.path, e.prefix)
	e.lines, e.records, e.evictions = e.root+zkpath.LinesDir, e.root+zkpath.RecordsDir, e.root+zkpath.EvictionsDir
	e.ends, e.walked = e.records+"/"+endsNode, e.records+"/"+walkNode
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Features reports that ZooKeeper can do everything.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Durable, BySession: true, Store: "zookeeper"}
}

// connect makes a connection of the engine's own and waits until the servers can be asked.
func (e *Engine) connect(ctx context.Context, timeout time.Duration, singleSession bool) (*zkstore.Conn, error) {
	conn, err := zkstore.Connect(e.servers, timeout, singleSession, e.dial)
	if err != nil {
		return nil, err
	}
	err = conn.Ready(ctx)
	if err == nil && e.user != "" {
		err = conn.Call(ctx, func(c *zk.Conn) error { return c.AddAuth("digest", []byte(e.user+":"+e.password)) })
	}
	if err != nil {
		e.closeLater(conn)
		return nil, err
	}
	return conn, nil
}

// closeLater closes a connection without keeping the caller waiting; Close waits for it.
func (e *Engine) closeLater(conn *zkstore.Conn) {
	if e.sessions.Go(func(context.Context) { conn.Close() }) != nil {
		conn.Close()
	}
}

// prepare creates the nodes that all names share, where they are missing.
func (e *Engine) prepare(ctx context.Context) error {
	for _, path := range []string{e.lines, e.records, e.evictions} {
		err := e.main.Call(ctx, func(c *zk.Conn) error { // also finds out whether this user may read there
			_, _, err := c.Get(path) // there may be millions of children
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			err = e.createPath(ctx, e.main, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Open starts a session: on a connection of its own, with the TTL asked for as nearly as
// the servers allow, or on the user's connection, with the TTL that it has.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	s := &session{
		e: e, id: o.ID, conn: e.main, ownConn: !e.borrowed, assumedFrom: driverkit.Now(), recheck: recheckInterval,
		ended: make(chan struct{}), claims: map[string]*claimState{},
	}
	var err error
	if s.ownConn {
		s.conn, err = e.connect(ctx, zkstore.TimeoutFor(o.TTL), true)
	} else {
		err = e.main.CheckHooked(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := s.attach(ctx); err != nil {
		if s.ownConn {
			e.closeLater(s.conn)
		}
		return nil, err
	}
	return s, nil
}

// Close ends the sessions that are still open with all their claims, and the engine's
// goroutines. It takes a bounded time: where the servers do not answer, the claims stay
// until their ZooKeeper sessions end, on a connection of the user's as long as that lives.
// The error says so.
func (e *Engine) Close() (err error) {
	e.closeOnce.Do(func() { err = e.close() }) // later calls wait for the first
	return err
}

func (e *Engine) close() error {
	e.cancel()
	err := e.sessions.Close()
	if !e.borrowed {
		e.main.Close()
		return err
	}
	e.main.Release()
	e.mu.Lock()
	defer e.mu.Unlock()
	return driver.Join(e.leftovers...) // also of sessions that were closed before
}
