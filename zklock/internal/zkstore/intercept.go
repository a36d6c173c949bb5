package zkstore

import (
	"bufio"
	"encoding/binary"
	"net"
	"time"
)

// Opcodes and xids of ZooKeeper's protocol, as far as they are looked at.
const (
	opCreate          = 1
	opDelete          = 2
	opGetData         = 4
	opSetData         = 5
	opSync            = 9
	opMulti           = 14
	opCreateContainer = 19
	opAuth            = 100
	opSetWatches      = 101
	opClose           = -11

	xidEvent = -1
)

// isWrite reports whether a request is committed by a majority. A sync is not: a leader
// that was deposed and has not noticed answers it alone.
func isWrite(op int32) bool {
	switch op {
	case opCreate, opCreateContainer, opDelete, opSetData, opMulti:
		return true
	}
	return false
}

// An observer is told what passes through an interceptor.
type observer interface {
	// sending is called with each frame before it is written, and returns what is
	// written in its place, which has the same size; an error keeps it back and fails
	// the library's write.
	sending(frame []byte) ([]byte, error)

	// received is called with the first 16 bytes of each frame that the library has
	// read, after its length. Those of a reply are xid, zxid and error code, those of
	// the handshake version, timeout and session ID.
	received(head []byte)

	// closed is called before the connection is closed.
	closed()
}

// An interceptor is one TCP connection as the client library uses it, with an observer.
type interceptor struct {
	net.Conn
	o              observer
	r              *bufio.Reader // the library reads each reply in two pieces
	handshakeLimit time.Duration
	restored       <-chan struct{} // closed when the library has set its watches again; nil: it has none

	// used by the library's reading goroutine alone
	head       [20]byte // the beginning of the present frame, its length included
	headSize   int      // how much of head has been read
	bodyLeft   int      // how much of the frame's rest has not
	handshaken bool     // the reply to the handshake has been read
	passing    bool     // replies are no longer held back
}

func newInterceptor(conn net.Conn, o observer, handshakeLimit time.Duration, restored <-chan struct{}) *interceptor {
	return &interceptor{Conn: conn, o: o, r: bufio.NewReader(conn), handshakeLimit: handshakeLimit, restored: restored}
}

func (t *interceptor) Write(frame []byte) (int, error) {
	frame, err := t.o.sending(frame)
	if err != nil {
		return 0, err
	}
	return t.Conn.Write(frame)
}

func (t *interceptor) Read(p []byte) (int, error) {
	t.holdBack()
	n, err := t.r.Read(p)
	t.parse(p[:n])
	return n, err
}

// Close reports the end of the connection first.
func (t *interceptor) Close() error {
	t.o.closed()
	return t.Conn.Close()
}

// SetReadDeadline limits the handshake. The library allows nearly seven session timeouts
// for the first bytes of the reply and any time for the rest, so that one server that is
// stopped would cost the session.
func (t *interceptor) SetReadDeadline(at time.Time) error {
	if limit := time.Now().Add(t.handshakeLimit); !t.handshaken && (at.IsZero() || at.After(limit)) {
		at = limit
	}
	return t.Conn.SetReadDeadline(at)
}

// maxHold is the longest time for which a reply is held back.
const maxHold = 250 * time.Millisecond

// holdBack delays the first reply on a further connection until the library has sent its
// watches again. With them it sends the zxid of the last reply, which it reads without a
// lock beside the goroutine that writes it: a data race, and if the value is too high, the
// server does not report which watches should have fired meanwhile.
func (t *interceptor) holdBack() {
	if t.passing || !t.handshaken || t.headSize > 0 || t.bodyLeft > 0 {
		return
	}
	if t.restored == nil {
		t.passing = true
		return
	}
	head, err := t.r.Peek(len(t.head))
	if err != nil || int32(binary.BigEndian.Uint32(head[4:])) < 0 {
		return // Read returns the error; events and pings carry no zxid that counts
	}
	timer := time.NewTimer(maxHold)
	defer timer.Stop()
	select {
	case <-t.restored:
	case <-timer.C:
	}
	t.passing = true
}

// parse finds the beginnings of frames in what the library has read.
func (t *interceptor) parse(b []byte) {
	for len(b) > 0 {
		if t.bodyLeft > 0 {
			n := min(t.bodyLeft, len(b))
			t.bodyLeft -= n
			b = b[n:]
			continue
		}
		n := copy(t.head[t.headSize:], b)
		t.headSize += n
		b = b[n:]
		if t.headSize < len(t.head) {
			return
		}
		t.headSize = 0
		t.bodyLeft = max(0, int(binary.BigEndian.Uint32(t.head[:]))-16)
		t.o.received(t.head[4:])
		t.handshaken = true
	}
}
