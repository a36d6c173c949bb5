package planted

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A client is an engine on a server in another process.
type client struct {
	addr     string
	dial     driver.Dialer
	features driver.Features
	bug      bug
	sessions *driverkit.Sessions[*remoteSession]

	turn chan struct{} // has one element while nobody dials; guards conn
	conn *conn         // the present connection, which may be broken; nil: none yet
}

var _ driver.Records = (*client)(nil)

// Connect returns an engine on a server. Its connections are opened by the Dialer in ctx,
// if there is one.
func Connect(ctx context.Context, addr string) (driver.Engine, error) {
	e := &client{
		addr: addr, dial: driver.DialerOf(ctx),
		sessions: driverkit.NewSessions[*remoteSession]("planted"), turn: make(chan struct{}, 1),
	}
	if e.dial == nil {
		e.dial = new(net.Dialer).DialContext
	}
	e.turn <- struct{}{}
	e.sessions.AtClose = e.disconnect
	hello, err := e.call(ctx, request{Op: opHello})
	if err != nil {
		_ = e.Close() // there is nothing to close but the connection
		return nil, err
	}
	if e.bug, err = byName(hello.Bug); err != nil {
		_ = e.Close()
		return nil, err
	}
	e.features = hello.Features
	if e.bug.mixUp { // the first connection has to know it too
		_ = e.disconnect()
	}
	return e, nil
}

// connection returns the present connection, or a new one.
func (e *client) connection(ctx context.Context) (*conn, error) {
	select {
	case <-e.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { e.turn <- struct{}{} }()
	if err := e.sessions.Begin(ctx); err != nil && (e.conn == nil || e.conn.broken()) {
		return nil, err // a closed engine still uses the connection that it has, to close its sessions
	}
	if e.conn != nil && !e.conn.broken() {
		return e.conn, nil
	}
	if e.conn != nil && e.bug.once {
		return nil, fmt.Errorf("planted: %w: the connection is gone", driver.ErrUnreachable)
	}
	c, err := e.dial(ctx, "tcp", e.addr)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("planted: %w: %w", driver.ErrUnreachable, err)
	}
	if e.conn != nil {
		e.conn.close()
	}
	e.conn = newConn(c, e.bug.mixUp)
	return e.conn, nil
}

func (e *client) disconnect() error {
	<-e.turn
	defer func() { e.turn <- struct{}{} }()
	if e.conn != nil {
		e.conn.close()
	}
	e.conn = nil
	return nil
}

// call makes one call, and repeats nothing.
func (e *client) call(ctx context.Context, r request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	c, err := e.connection(ctx)
	if err != nil {
		return reply{}, err
	}
	return c.call(ctx, r)
}

func (e *client) Features() driver.Features { return e.features }

func (e *client) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	a, err := e.call(ctx, request{Op: opOpen, Session: o.ID, TTL: o.TTL, Note: o.Note})
	if err != nil {
		return nil, err
	}
	s := &remoteSession{engine: e, id: o.ID, ttl: a.TTL}
	if err := e.sessions.Add(o.ID, s); err != nil {
		return nil, err
	}
	if e.bug.client != nil {
		return e.bug.client(s), nil
	}
	return s, nil
}

func (e *client) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		a, err := e.call(ctx, request{Op: opList, Text: prefix})
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, x := range a.Entries {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func (e *client) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	a, err := e.call(ctx, request{Op: opLine, Text: name})
	return a.Entries, err
}

func (e *client) Evict(ctx context.Context, x driver.Entry) error {
	_, err := e.call(ctx, request{Op: opEvict, Entry: x})
	return err
}

func (e *client) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	a, err := e.call(ctx, request{Op: opLoad, Text: key})
	if err == nil && a.Version != 0 && a.Value == nil {
		a.Value = []byte{}
	}
	return a.Value, a.Version, err
}

func (e *client) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	a, err := e.call(ctx, request{Op: opStore, Text: key, Value: bytes.Clone(value), HasNone: value == nil, Version: ifVersion, Keep: keep})
	return a.Version, err
}

func (e *client) Close() error { return e.sessions.Close() }

// A remoteSession is a session at the server.
type remoteSession struct {
	engine *client
	id     string
	ttl    time.Duration
}

var _ driver.Multi = (*remoteSession)(nil)

func (s *remoteSession) TTL() time.Duration    { return s.ttl }
func (s *remoteSession) Lost() <-chan struct{} { return nil }

func (s *remoteSession) call(ctx context.Context, op op, last driver.Standing, cs ...driver.Claim) (reply, error) {
	// A copy: the call may end before the request is written, and then the caller uses cs again.
	return s.engine.call(ctx, request{Op: op, Session: s.id, Last: last, Claims: slices.Clone(cs)})
}

// one makes a call that is answered by one standing.
func (s *remoteSession) one(ctx context.Context, op op, last driver.Standing, c driver.Claim) (driver.Standing, error) {
	a, err := s.call(ctx, op, last, c)
	if err != nil || len(a.Standings) != 1 {
		return driver.Standing{}, err
	}
	return a.Standings[0], nil
}

func (s *remoteSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	return s.one(ctx, opEnter, driver.Standing{}, c)
}

func (s *remoteSession) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	a, err := s.call(ctx, opEnterAll, driver.Standing{}, cs...)
	return a.Standings, err
}

func (s *remoteSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	return s.one(ctx, opAwait, last, c)
}

func (s *remoteSession) Leave(ctx context.Context, c driver.Claim) error {
	_, err := s.call(ctx, opLeave, driver.Standing{}, c)
	return err
}

func (s *remoteSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	a, err := s.call(ctx, opBeat, driver.Standing{}, live...)
	copy(out, a.Standings)
	return err
}

func (s *remoteSession) Close(ctx context.Context) error {
	_, err := s.call(ctx, opClose, driver.Standing{})
	s.engine.sessions.Remove(s.id, s)
	return err
}
