package zklock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driverkit"
)

// A link is one connection of the client library to the servers, over all the TCP
// connections it makes, and what is known of it.
type link struct {
	conn *zk.Conn
	dial zk.Dialer
	once bool // for one life only: after its end there is no further one
	ask  time.Duration
	tell zk.EventCallback // the user's, may be nil

	ctx    context.Context // ends when the link is closed
	cancel context.CancelFunc
	events <-chan zk.Event // closed by the library when its goroutines have ended; nil: the user's
	crew   *driverkit.Pool // makes the calls of the library; close waits for them

	mu       sync.Mutex    // guards what follows, and what says so in taps and lives
	dialed   bool          // the library has asked for a connection
	tap      *tap          // the present connection; nil: none
	life     *life         // the present one; nil before the first
	up       bool          // the library may send
	servers  int           // how many there are to try
	failures int           // connections that failed since the last good one
	cause    error         // of the last failure
	changed  chan struct{} // closed and replaced whenever any of these changes
	watches  map[watchKey]*watch
	kept     map[watchKey]int    // how many watches the library has for us, or may have; it sets them again on the next connection
	guards   map[string]struct{} // of writes under way that only the present life may make, see start
	late     map[string]struct{} // the same of lives that have ended
	shut     bool                // close was called
	refuse   bool                // no further connection
	parted   bool                // the servers have confirmed the end
}

func newLink(dial zk.Dialer, servers int) *link {
	l := &link{
		dial: dial, crew: driverkit.NewPool(maxAbreast), servers: servers, changed: make(chan struct{}),
		watches: map[watchKey]*watch{}, kept: map[watchKey]int{}, guards: map[string]struct{}{}, late: map[string]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if l.dial == nil {
		l.dial = func(network, addr string, timeout time.Duration) (net.Conn, error) {
			d := net.Dialer{Timeout: timeout}
			return d.DialContext(l.ctx, network, addr)
		}
	}
	return l
}

// option makes c this link's. It is the option that zk.Connect is called with.
func (l *link) option(c *zk.Conn) {
	l.conn = c
	zk.WithDialer(l.connect)(c)
	zk.WithEventCallback(l.event)(c)
}

func (l *link) changeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// connect is the library's dialer.
func (l *link) connect(network, addr string, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	l.dialed = true
	refuse := l.refuse
	l.mu.Unlock()
	if refuse {
		return nil, net.ErrClosed
	}
	conn, err := l.dial(network, addr, timeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failedLocked(err)
		return nil, err
	}
	if l.refuse {
		conn.Close()
		return nil, net.ErrClosed
	}
	timeout = l.ask
	if l.life != nil {
		timeout = l.life.timeout
	}
	limit := min(max(timeout/3, time.Second), 5*time.Second)
	l.tap = &tap{Conn: conn, l: l, r: bufio.NewReader(conn), limit: limit}
	if len(l.kept) > 0 {
		l.tap.gate = make(chan struct{})
	}
	return l.tap, nil
}

func (l *link) failedLocked(err error) {
	l.failures++
	l.cause = err
	l.changeLocked()
}

var errHandshake = errors.New("the server ended the connection at the handshake")

// closing notes that the library, or cut, ends a connection.
func (l *link) closing(t *tap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tap != t {
		return
	}
	l.tap, l.up = nil, false
	if !t.shaken {
		l.failedLocked(errHandshake)
		return
	}
	l.changeLocked()
}

// cut ends the present connection, so that the library tries another server.
func (l *link) cut() {
	l.mu.Lock()
	t := l.tap
	l.mu.Unlock()
	if t != nil {
		t.Close()
	}
}

// errLate refuses a write that was queued for a life which has ended since.
var errLate = errors.New("zklock: the write is for a session that has ended")

// sending notes a frame of the library's that is about to be sent. An error says that it
// must not be: the library keeps what it could not send while there was no connection, and
// sends it on the next, also where that begins another life. What was to end with the old
// life would then stay as long as the new one.
func (l *link) sending(t *tap, frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.begun {
		t.begun, t.shook = true, now()
		return nil
	}
	if len(frame) < frameHead {
		return nil
	}
	xid, op := int32(binary.BigEndian.Uint32(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:]))
	for guard := range l.late {
		if writes(op) && bytes.Contains(frame, []byte(guard)) {
			return errLate
		}
	}
	t.asked = append(t.asked, request{xid: xid, op: op, sent: now()})
	if op == opClose {
		l.endLocked() // by its user, who may close a connection of his own: the servers free all as soon as they read this
	}
	if op == opWatches && t.gate != nil && !t.again {
		t.again = true
		close(t.gate)
	}
	return nil
}

// frameHead is how long the beginning of a request is: its length, an xid and an op.
const frameHead = 12

// received notes the beginning of a frame from the server.
func (l *link) received(t *tap, head []byte) {
	at := now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.shaken {
		timeout := time.Duration(binary.BigEndian.Uint32(head[4:])) * time.Millisecond
		t.shaken = true
		l.greetedLocked(t, binary.BigEndian.Uint64(head[8:]), timeout)
		return
	}
	xid, code := int32(binary.BigEndian.Uint32(head)), binary.BigEndian.Uint32(head[12:])
	if xid == xidEvent {
		return
	}
	for i, r := range t.asked {
		if r.xid != xid {
			continue
		}
		t.asked = append(t.asked[:i], t.asked[i+1:]...)
		l.answeredLocked(t, r, code, at)
		return
	}
}

// answeredLocked takes in that a server has answered.
func (l *link) answeredLocked(t *tap, r request, code uint32, at instant) {
	f := l.life
	if r.op == opClose {
		l.parted = true
		return
	}
	if f == nil || code != 0 {
		return
	}
	if writes(r.op) {
		f.until = max(f.until, t.heard(r.sent, f.notice).add(f.timeout))
	}
	t.touch(touch{r.sent, at}, f.timeout)
}

// greetedLocked takes in the server's answer to the handshake: an id of 0 says
// that the life has ended.
func (l *link) greetedLocked(t *tap, id uint64, timeout time.Duration) {
	l.failures = 0
	if f := l.life; f != nil && (f.id != id || timeout < f.timeout) {
		l.endLocked() // a shorter time than was promised is none
	}
	if id == 0 || l.refuse {
		return
	}
	if l.life != nil && !l.life.ended() {
		return
	}
	f := &life{id: id, timeout: timeout, lost: make(chan struct{}), members: map[*session]func(){}}
	_, f.notice = usable(timeout, l.wanted(timeout))
	f.until = t.shook.add(timeout) // to make it took a majority
	l.life = f
}

// wanted is the TTL for which a link of one life was made, if the servers gave
// it another timeout than was asked for.
func (l *link) wanted(timeout time.Duration) time.Duration {
	if !l.once || timeout <= l.ask {
		return 0
	}
	return l.ask * 3 / 4
}

// endLocked ends the present life: its claims are gone.
func (l *link) endLocked() {
	f := l.life
	if f == nil || f.ended() {
		return
	}
	close(f.lost)
	for _, told := range f.members {
		told()
	}
	l.refuse = l.refuse || l.once
	clear(l.kept) // the library gives up its watches too
	maps.Copy(l.late, l.guards)
	clear(l.guards)
	l.fireLocked()
	l.changeLocked()
}

// event is the library's callback. It must not block.
func (l *link) event(ev zk.Event) {
	if l.tell != nil {
		l.tell(ev)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ev.Type != zk.EventSession:
		l.firedLocked(ev)
		return
	case ev.State == zk.StateHasSession:
		l.up = l.tap != nil && l.tap.shaken
		l.fireLocked() // whoever waits looks, and sets its watch on this connection
	case ev.State == zk.StateExpired:
		l.endLocked()
	case ev.State == zk.StateDisconnected:
		l.up = false
	default:
		return
	}
	l.changeLocked()
}
