package zkstore

import (
	"context"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
)

// A Conn is one connection of the client library to the servers, over all the TCP
// connections that it makes.
type Conn struct {
	library       *zk.Conn
	dialServer    Dialer
	singleSession bool             // no reconnect once the ZooKeeper session has ended
	requested     time.Duration    // session timeout; 0: the user's choice
	callback      zk.EventCallback // the user's, may be nil

	ctx    context.Context // ends when the connection is closed
	cancel context.CancelFunc
	events <-chan zk.Event // closed by the library when its goroutines have ended; nil: the user's
	pool   *driverkit.Pool // runs calls of the library; Close waits for them

	mu             sync.Mutex // guards what follows, the state of transports and sessions
	dialed         bool       // the library has asked for a TCP connection
	transport      *transport // the present TCP connection; nil: none
	session        *Session   // the present or last one; nil before the first
	connected      bool       // the library sends requests
	servers        int        // how many there are to try
	failures       int        // TCP connections that failed since the last good one
	failure        error      // of the last one
	refusals       int        // those that a server ended at the handshake
	changed        chan struct{}
	watches        watchSet
	sessionWrites  map[string]int // guards of the present session's writes under way, counted; see start
	staleWrites    map[string]int // the same of writes whose session has ended
	closed         bool           // Close or Release was called
	noReconnect    bool
	closeConfirmed bool // the servers have answered the request to end the session
}

// A Dialer makes a TCP connection, within timeout and for no longer than ctx, which ends
// when the Conn is closed.
type Dialer func(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error)

// WithoutContext returns a Dialer that calls d, which knows no ctx. It is nil if d is.
func WithoutContext(d zk.Dialer) Dialer {
	if d == nil {
		return nil
	}
	return func(_ context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
		return d(network, addr, timeout)
	}
}

// dialTCP is the Dialer of a Conn that is given none.
func dialTCP(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(ctx, network, addr)
}

func newConn(dial Dialer, servers int) *Conn {
	c := &Conn{
		dialServer: dial, pool: driverkit.NewPool(maxIdle), servers: servers, changed: make(chan struct{}),
		watches: newWatchSet(), sessionWrites: map[string]int{}, staleWrites: map[string]int{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.dialServer == nil {
		c.dialServer = dialTCP
	}
	return c
}

// maxIdle is how many goroutines wait for the next call.
const maxIdle = 32

// changeLocked wakes callers that wait for a change of the connection's state.
func (c *Conn) changeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// timeoutLocked is the session's timeout, or the one to ask for. What a user asks for is not known.
func (c *Conn) timeoutLocked() time.Duration {
	switch {
	case c.session != nil:
		return c.session.Timeout
	case c.requested > 0:
		return c.requested
	}
	return 10 * time.Second
}

func (c *Conn) failLocked(err error) {
	c.failures++
	c.failure = err
	c.changeLocked()
}

// answeredLocked notes the reply to a request. Only a success counts: with an error code
// the server may have answered alone.
func (c *Conn) answeredLocked(g *exchangeLog, r request, code uint32, at driverkit.Instant) {
	if r.op == opClose {
		c.closeConfirmed = true
		return
	}
	s := c.session
	if s == nil || code != 0 {
		return
	}
	if isWrite(r.op) {
		s.validUntil = max(s.validUntil, g.leaderHeard(r.sent, s.leaderLag).Add(s.Timeout))
	}
	g.add(exchange{r.sent, at}, s.Timeout)
}

// handshakeLocked notes the server's reply to the handshake. An ID of 0 says that the
// session has expired.
func (c *Conn) handshakeLocked(id uint64, timeout time.Duration, sent driverkit.Instant) {
	c.failures, c.refusals = 0, 0
	if s := c.session; s != nil && (s.ID != id || timeout < s.Timeout) {
		c.endSessionLocked() // promises were made by the longer timeout
	}
	if id == 0 || c.noReconnect {
		return
	}
	if c.session != nil && !c.session.Ended() {
		return
	}
	wanted := time.Duration(0)
	if c.singleSession && timeout > c.requested {
		wanted = c.requested * 3 / 4
	}
	c.session = newSession(c, id, timeout, wanted, sent)
}

// endSessionLocked ends the present session: its ephemeral nodes are gone, or will be.
func (c *Conn) endSessionLocked() {
	s := c.session
	if s == nil || s.Ended() {
		return
	}
	s.end() // and all contexts made of it, before it returns
	c.noReconnect = c.noReconnect || c.singleSession
	clear(c.watches.inLibrary) // the library drops its watches too
	maps.Copy(c.staleWrites, c.sessionWrites)
	clear(c.sessionWrites)
	c.watches.fireAll()
	c.changeLocked()
}

// event is the library's callback. It must not block.
func (c *Conn) event(ev zk.Event) {
	if c.callback != nil {
		c.callback(ev)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ev.Type != zk.EventSession:
		c.watches.event(ev)
		return
	case ev.State == zk.StateHasSession:
		c.connected = c.transport != nil && c.transport.handshaken
		c.watches.fireAll() // waiters read again, and set their watches on this TCP connection
	case ev.State == zk.StateExpired:
		c.endSessionLocked()
	case ev.State == zk.StateDisconnected:
		c.connected = false
	default:
		return
	}
	c.changeLocked()
}
