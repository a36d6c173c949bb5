package zklock

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
)

// maxReply is the largest answer that is read.
const maxReply = 16 << 20

// mail takes what is for us out of what the library reads: answers to letters, and
// events that only we wait for. It waits for the next frame, as a read would, and
// reports whether there was such a one.
func (t *tap) mail() bool {
	if !t.greeted || t.fill > 0 || t.skip > 0 {
		return false
	}
	head, err := t.r.Peek(len(t.head))
	if err != nil {
		return false // Read says what is wrong
	}
	size, xid := 4+int(binary.BigEndian.Uint32(head)), int32(binary.BigEndian.Uint32(head[4:]))
	var taken bool
	switch {
	case xid <= lastOurs:
		taken = t.answer(size)
	case xid == xidEvent && t.l.own:
		taken = t.event(size)
	}
	if taken {
		t.wait()
	}
	return taken
}

// answer takes in the answer to a letter.
func (t *tap) answer(size int) bool {
	if size < len(t.head) || size > maxReply {
		t.Close()
		return false
	}
	var frame []byte
	var err error
	fits := size <= t.r.Size()
	if fits {
		frame, err = t.r.Peek(size)
	} else {
		frame = make([]byte, size)
		_, err = io.ReadFull(t.r, frame)
	}
	if err != nil {
		return false
	}
	r := t.l.received(t, frame[4:len(t.head)])
	if code := int32(binary.BigEndian.Uint32(frame[16:])); code != 0 {
		r.done(t.l, nil, errorOf(code))
	} else {
		r.done(t.l, frame[len(t.head):], nil)
	}
	if fits {
		_, _ = t.r.Discard(size)
	}
	return true
}

// done tells who asked.
func (r request) done(l *link, body []byte, err error) {
	if r.tell == nil {
		return // not ours
	}
	defer l.posts.Done()
	r.tell(body, err)
}

// event takes in an event, unless the library waits for it too.
func (t *tap) event(size int) bool {
	if size > t.r.Size() {
		return false
	}
	frame, err := t.r.Peek(size)
	if err != nil || size < len(t.head) {
		return false
	}
	r := reply{rest: frame[len(t.head):]}
	kind := zk.EventType(r.int32())
	r.int32() // the state
	path := string(r.text())
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == zk.EventSession || r.short || l.keptLocked(path) {
		return false
	}
	l.firedLocked(zk.Event{Type: kind, Path: path})
	_, _ = t.r.Discard(size)
	return true
}

// wait gives the server as much time for the next frame as the library does after each
// that it sees.
func (t *tap) wait() {
	if t.patience == 0 || t.r.Buffered() > 0 {
		return
	}
	if now := time.Now(); now.Sub(t.waits) > t.patience/8 {
		t.waits = now
		_ = t.Conn.SetReadDeadline(now.Add(t.patience))
	}
}
