package zklock

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// What takes a lock and gives it back is sent past the library, on its connection.
// The library passes a request from goroutine to goroutine, and its caller cannot
// leave when ctx ends; here the caller writes and the goroutine that reads answers.
// The library sees none of it: such requests have xids that it never uses, and the
// tap keeps their answers.

// A letter is such a request.
type letter struct {
	op    int32
	frame []byte
	tell  told
}

// told is called once with the body of an answer, or an error. It must not block, and
// the body is gone when it returns.
type told func(body []byte, err error)

// lastOurs is the highest xid of a letter; they go down from here. The library's are
// positive but for a few small ones.
const lastOurs = -1 << 30

// room is how much may be unanswered, in bytes, while who asks writes by himself:
// so much fits in between, whether or not the server reads it.
const room = 16 << 10

var (
	errDown = errors.New("there is no connection")
	errMute = errors.New("the library has yet to say who we are")
)

// post sends a letter on the present connection for f, or for any life if f is nil. An
// error says that it was not sent, and nobody is told.
func (l *link) post(f *life, x letter) error {
	l.mu.Lock()
	t := l.tap
	var err error
	switch {
	case l.shut, f != nil && (f.ended() || f != l.life):
		err = driver.ErrGone
	case !l.up:
		err = errDown
	case t.mute:
		err = errMute
	case len(x.frame) > maxFrame:
		err = zk.ErrShortBuffer // as the library says; the server would end the connection
	}
	if err != nil {
		l.mu.Unlock()
		return err
	}
	if l.xid = min(l.xid, lastOurs) - 1; l.xid > 0 { // below the lowest is the highest
		l.xid = lastOurs
	}
	binary.BigEndian.PutUint32(x.frame, uint32(len(x.frame)-4))
	binary.BigEndian.PutUint32(x.frame[4:], uint32(l.xid))
	binary.BigEndian.PutUint32(x.frame[8:], uint32(x.op))
	l.posts.Add(1)
	t.askedLocked(request{xid: l.xid, op: x.op, size: len(x.frame), sent: now(), tell: x.tell})
	full := t.owed > room
	if full {
		l.crew.Do(func() { t.put(x.frame) })
	}
	l.mu.Unlock()
	if !full {
		t.put(x.frame)
	}
	return nil
}

// send posts a letter as soon as there is a connection for it.
func (l *link) send(ctx context.Context, f *life, x letter) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.post(f, x)
		switch {
		case errors.Is(err, errDown):
			err = l.ready(ctx, f)
		case errors.Is(err, errMute): // whatever else the library sends comes after that
			err = l.do(ctx, f, func(c *zk.Conn) error {
				_, _, err := c.Exists("/")
				return err
			})
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// exchange sends a frame and reads the answer. When ctx ends first, the answer is read
// all the same: what read writes must be its own.
func (l *link) exchange(ctx context.Context, f *life, op int32, frame []byte, read func(body []byte) error) error {
	done := make(chan error, 1)
	err := l.send(ctx, f, letter{op, frame, func(body []byte, err error) {
		if err == nil && read != nil {
			err = read(body)
		}
		done <- err
	}})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return l.judge(f, err)
	case <-ctx.Done():
		return unanswered(ctx)
	}
}

// put writes the frame of a letter. A connection that does not take it is of no use to
// the library either.
func (t *tap) put(frame []byte) {
	if _, err := t.write(frame); err != nil {
		t.Close()
	}
}

func (t *tap) write(frame []byte) (int, error) {
	t.writing.Lock() // a frame in one piece, whatever kind of connection this is
	defer t.writing.Unlock()
	return t.Conn.Write(frame)
}
