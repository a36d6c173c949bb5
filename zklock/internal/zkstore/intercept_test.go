package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// frameOf returns a frame: its length, and then numbers.
func frameOf(numbers ...uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4*len(numbers)))
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// handshaken returns an interceptor past its handshake, and the server's end of its
// connection. The library has watches on keys.
func handshaken(t *testing.T, keys ...WatchKey) (*interceptor, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	c := newConn(func(context.Context, string, string, time.Duration) (net.Conn, error) { return near, nil }, 1)
	for _, key := range keys {
		c.watches.count(key, 1)
	}
	tcp, err := c.dial("tcp", "server", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the pipe
		_, _ = io.ReadFull(far, make([]byte, 24))
		_, _ = far.Write(frameOf(0, 10_000, 0, 7, 0)) // version, timeout, session and the beginning of a password
		_, _ = io.Copy(io.Discard, far)
	}()
	if _, err := tcp.Write(frameOf(0, 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(tcp, make([]byte, 24)); err != nil {
		t.Fatal(err)
	}
	return tcp.(*interceptor), far
}

// The library reads the zxid of the last reply for the watches that it sets again, while
// the next reply writes it. A reply that has come first would be taken for known.
func TestNoReplyOvertakesTheWatchesThatAreSetAgain(t *testing.T) {
	t.Parallel()
	const ping = ^uint32(1) // the xid -2
	begun := time.Now()
	tcp, far := handshaken(t, WatchKey{Path: "/name"})
	read := make(chan uint32, 2) // xids
	go func() {                  // ends with the pipe
		for frame := make([]byte, 20); ; {
			if _, err := io.ReadFull(tcp, frame); err != nil {
				return
			}
			read <- binary.BigEndian.Uint32(frame[4:])
		}
	}()
	if _, err := far.Write(append(frameOf(ping, 0, 0, 0), frameOf(1, 0, 5, 0)...)); err != nil {
		t.Fatal(err)
	}
	if xid := <-read; xid != ping {
		t.Fatalf("first comes %d, not the ping", xid)
	}
	select {
	case xid := <-read:
		if time.Since(begun) < maxHold {
			t.Errorf("the reply to %d comes before the watches are set again", xid)
		}
		return // the machine stood still
	case <-time.After(20 * time.Millisecond): // long enough for a wrong one, no reason to fail when slow
	}
	if _, err := tcp.Write(frameOf(2, opSetWatches, 0)); err != nil {
		t.Fatal(err)
	}
	if xid := <-read; xid != 1 {
		t.Errorf("the reply is to %d", xid)
	}
}

// Where there is nothing to set again, and where the library does not do it, replies go on.
func TestAReplyIsNotHeldBackForLong(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]WatchKey{"no watches": nil, "the library has none": {{Path: "/name"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tcp, far := handshaken(t, keys...)
			go func() { _, _ = far.Write(frameOf(1, 0, 5, 0)) }() // ends with the pipe
			if _, err := io.ReadFull(tcp, make([]byte, 20)); err != nil {
				t.Error(err)
			}
		})
	}
}

type headObserver struct{ heads [][4]uint32 }

func (o *headObserver) sending(frame []byte) ([]byte, error) { return frame, nil }
func (o *headObserver) closed()                              {}
func (o *headObserver) received(head []byte) {
	var h [4]uint32
	for i := range h {
		h[i] = binary.BigEndian.Uint32(head[4*i:])
	}
	o.heads = append(o.heads, h)
}

func TestRepliesAreFoundHoweverTheLibraryReadsThem(t *testing.T) {
	t.Parallel()
	stream := slices.Concat(frameOf(0, 10_000, 0, 7, 8, 9), frameOf(1, 0, 5, 0), frameOf(2, 0, 6, 0, 1, 2, 3))
	want := [][4]uint32{{0, 10_000, 0, 7}, {1, 0, 5, 0}, {2, 0, 6, 0}}
	for size := 1; size <= len(stream); size++ {
		o := &headObserver{}
		tcp := newInterceptor(nil, o, time.Second, nil)
		tcp.r.Reset(bytes.NewReader(stream))
		var read []byte
		for p := make([]byte, size); ; {
			n, err := tcp.Read(p)
			if read = append(read, p[:n]...); err != nil {
				break
			}
		}
		if !bytes.Equal(read, stream) || !slices.Equal(o.heads, want) {
			t.Errorf("in pieces of %d bytes: %v, want %v", size, o.heads, want)
		}
	}
}
