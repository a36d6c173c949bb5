package zkstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
)

// Option makes this the connection of lc. It is the option that zk.Connect is called with.
func (c *Conn) Option(lc *zk.Conn) {
	c.library = lc
	zk.WithDialer(c.dial)(lc)
	zk.WithEventCallback(c.event)(lc)
}

// A transport is one TCP connection of the library. Its fields are guarded by Conn.mu.
type transport struct {
	c             *Conn
	tcp           *interceptor
	exchanges     exchangeLog
	handshakeSent bool
	handshaken    bool
	restored      chan struct{} // closed when the library has set its watches again; nil: it has none, or it is closed
}

// dial is the library's dialer.
func (c *Conn) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	c.mu.Lock()
	c.dialed = true
	refuse := c.noReconnect
	c.mu.Unlock()
	if refuse {
		return nil, net.ErrClosed
	}
	conn, err := c.dialServer(c.ctx, network, addr, timeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failLocked(err)
		return nil, err
	}
	if c.noReconnect {
		conn.Close()
		return nil, net.ErrClosed
	}
	t := &transport{c: c}
	if len(c.watches.inLibrary) > 0 {
		t.restored = make(chan struct{})
	}
	t.tcp = newInterceptor(conn, t, min(max(c.timeoutLocked()/3, time.Second), 5*time.Second), t.restored)
	c.transport = t
	return t.tcp, nil
}

var errHandshake = errors.New("the server ended the connection at the handshake")

// closed implements observer.
func (t *transport) closed() {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != t {
		return
	}
	c.transport, c.connected = nil, false
	if !t.handshaken {
		c.refusals++
		c.failLocked(errHandshake)
		return
	}
	c.changeLocked()
}

// Reconnect ends the present TCP connection, so that the library tries another server.
func (c *Conn) Reconnect() {
	c.mu.Lock()
	t := c.transport
	c.mu.Unlock()
	if t != nil {
		t.tcp.Close()
	}
}

// Kill cuts this client off from the servers for good without ending its ZooKeeper
// session, as the death of the process would. Tests use it.
func (c *Conn) Kill() {
	c.mu.Lock()
	c.noReconnect = true
	c.mu.Unlock()
	c.Reconnect()
}

// errStale refuses a write that was queued for a session which has ended since.
var errStale = errors.New("zklock: the write is for a session that has ended")

// headSize is the size of a request's beginning: length, xid and opcode.
const headSize = 12

// sending implements observer. It refuses stale writes: the library keeps a request that it
// could not send while it had no connection, and sends it on the next one, also where that
// begins another session. An ephemeral node of the old session would then live as long as
// the new one.
func (t *transport) sending(frame []byte) ([]byte, error) {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.handshakeSent {
		t.handshakeSent, t.exchanges.handshakeSent = true, driverkit.Now()
		return c.handshakeFrameLocked(frame), nil
	}
	if len(frame) < headSize {
		return frame, nil
	}
	xid, op := int32(binary.BigEndian.Uint32(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:]))
	for guard := range c.staleWrites {
		if isWrite(op) && bytes.Contains(frame, []byte(guard)) {
			return nil, errStale
		}
	}
	t.exchanges.pending = append(t.exchanges.pending, request{xid: xid, op: op, sent: driverkit.Now()})
	if op == opClose {
		c.endSessionLocked() // the servers free everything as soon as they read this, also where the user closes
	}
	if op == opSetWatches && t.restored != nil {
		close(t.restored)
		t.restored = nil
	}
	return frame, nil
}

// handshakeFrameLocked returns the request for a session that is sent in place of the
// library's. The library says which transaction it saw last, and a server that has not
// come as far refuses it: another one has. Where every server refuses, and one again, the
// data has gone back, restored or begun empty, and the library would be refused for ever.
// So it is made to say that it has seen nothing. By then it has failed all requests that
// waited, and who asks next begins with a write, so no older state is read.
//
// A connection of the user's is left as it is, and one of a single session ends with it.
func (c *Conn) handshakeFrameLocked(frame []byte) []byte {
	const lastZxid = 8 // after the length and the version of the protocol
	if c.singleSession || c.requested == 0 || c.refusals <= c.servers || len(frame) < lastZxid+8 {
		return frame
	}
	frame = bytes.Clone(frame)
	clear(frame[lastZxid : lastZxid+8])
	return frame
}

// received implements observer.
func (t *transport) received(head []byte) {
	at := driverkit.Now()
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.handshaken {
		t.handshaken = true
		timeout := time.Duration(binary.BigEndian.Uint32(head[4:])) * time.Millisecond
		c.handshakeLocked(binary.BigEndian.Uint64(head[8:]), timeout, t.exchanges.handshakeSent)
		return
	}
	xid, code := int32(binary.BigEndian.Uint32(head)), binary.BigEndian.Uint32(head[12:])
	if xid == xidEvent {
		return
	}
	if r, ok := t.exchanges.takePending(xid); ok {
		c.answeredLocked(&t.exchanges, r, code, at)
	}
}
