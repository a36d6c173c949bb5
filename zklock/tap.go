package zklock

import (
	"bufio"
	"encoding/binary"
	"net"
	"time"
)

// The numbers of the requests that a tap knows.
const (
	opCreate   = 1
	opDelete   = 2
	opSetData  = 5
	opSync     = 9
	opGetData  = 4
	opMulti    = 14
	opCreateIn = 19 // a container
	opAuth     = 100
	opWatches  = 101
	opClose    = -11

	xidEvent = -1
	xidPing  = -2
)

// writes reports whether a request goes through the leader and a majority. A sync
// does not: a leader that was deposed and has not noticed answers it by itself.
func writes(op int32) bool {
	switch op {
	case opCreate, opDelete, opSetData, opMulti, opCreateIn:
		return true
	}
	return false
}

// A tap is one TCP connection as the client library uses it. It reads along, for
// what the library does not tell: the negotiated timeout, when each request was
// sent, and which were answered.
type tap struct {
	net.Conn
	l     *link
	r     *bufio.Reader // the library reads each reply in two pieces
	limit time.Duration // for the handshake

	// used by the library's reading goroutine alone
	head    [20]byte      // the beginning of the frame at hand
	fill    int           // how much of it there is
	skip    int           // how much of the frame is left
	greeted bool          // the handshake is over
	free    bool          // replies are passed on as they come
	gate    chan struct{} // closed when the watches of earlier connections have been set again; nil: there are none

	// guarded by l.mu
	begun   bool // the first frame was sent
	shaken  bool // and answered
	shook   instant
	again   bool      // gate is closed
	asked   []request // in the order they were sent
	touches []touch
}

// A request is on its way.
type request struct {
	xid, op int32
	sent    instant
}

func (t *tap) Write(frame []byte) (int, error) {
	if err := t.l.sending(t, frame); err != nil {
		return 0, err
	}
	return t.Conn.Write(frame)
}

func (t *tap) Read(p []byte) (int, error) {
	t.hold()
	n, err := t.r.Read(p)
	t.feed(p[:n])
	return n, err
}

// maxHold is for how long at most a reply is held back.
const maxHold = 250 * time.Millisecond

// hold waits with the first reply of a further connection until the library has sent
// the watches that it has from earlier ones. With them it sends the zxid of the last
// reply, up to which it claims to know everything: it reads that without a lock,
// beside the goroutine that writes it, and one that is too high hides from the server
// which watches should have fired meanwhile.
func (t *tap) hold() {
	if t.free || !t.greeted || t.fill > 0 || t.skip > 0 {
		return
	}
	if t.gate == nil {
		t.free = true
		return
	}
	head, err := t.r.Peek(len(t.head))
	if err != nil || int32(binary.BigEndian.Uint32(head[4:])) < 0 {
		return // Read says what is wrong; and only answers to requests count
	}
	timer := time.NewTimer(maxHold)
	defer timer.Stop()
	select {
	case <-t.gate:
	case <-timer.C:
	}
	t.free = true
}

// SetReadDeadline gives the handshake a limit of ours. The library allows nearly
// seven session timeouts for its first bytes and any time for the rest, so that
// one server that is stopped would cost the session.
func (t *tap) SetReadDeadline(at time.Time) error {
	if limit := time.Now().Add(t.limit); !t.greeted && (at.IsZero() || at.After(limit)) {
		at = limit
	}
	return t.Conn.SetReadDeadline(at)
}

func (t *tap) Close() error {
	t.l.closing(t)
	return t.Conn.Close()
}

// feed takes in what was read. A frame is its length and its body; the body of an
// answer begins with xid, zxid and error, that of the handshake with version,
// timeout and session.
func (t *tap) feed(b []byte) {
	for len(b) > 0 {
		if t.skip > 0 {
			n := min(t.skip, len(b))
			t.skip -= n
			b = b[n:]
			continue
		}
		n := copy(t.head[t.fill:], b)
		t.fill += n
		b = b[n:]
		if t.fill < len(t.head) {
			return
		}
		t.fill = 0
		t.skip = max(0, int(binary.BigEndian.Uint32(t.head[:]))-16)
		t.l.received(t, t.head[4:])
		t.greeted = true
	}
}
