package faultdial

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

// conditions are the states in which a connection must behave as net.Conn says.
var conditions = map[string]func(*Link){
	"direct":      func(*Link) {},
	"cut":         func(l *Link) { l.Cut(Both) },
	"delayed":     func(l *Link) { l.Delay(time.Hour) },
	"healed":      func(l *Link) { l.Cut(Both); l.Heal() },
	"cut, direct": func(l *Link) { time.AfterFunc(20*time.Millisecond, func() { l.Cut(Both) }) }, // while calls are under way
}

func inEach(t *testing.T, test func(t *testing.T, c *client)) {
	for name, set := range conditions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New()
			c := dial(t, l, newSilent(t))
			set(l)
			test(t, c)
		})
	}
}

// newSilent starts a server that neither reads nor writes.
func newSilent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) // resets what was never accepted
	return listener.Addr().String()
}

// call runs a Read or Write that blocks, and returns its result.
func call(f func([]byte) (int, error), size int) <-chan error {
	done := make(chan error, 1)
	go func() { // ends with the test's connection
		for {
			if _, err := f(make([]byte, size)); err != nil {
				done <- err
				return
			}
		}
	}()
	return done
}

func TestADeadlineEndsAReadAndAWrite(t *testing.T) {
	t.Parallel()
	expectTimeout := func(t *testing.T, what string, err error) {
		t.Helper()
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: %v, not a timeout", what, err)
		}
	}
	inEach(t, func(t *testing.T, c *client) {
		c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		read, written := call(c.Read, 10), call(c.Write, 1<<16)
		expectTimeout(t, "Read", conntest.Receive(t, read))
		expectTimeout(t, "Write", conntest.Receive(t, written))
		c.SetDeadline(time.Time{})
		read, written = call(c.Read, 10), call(c.Write, 1<<16)
		conntest.ExpectNothing(t, read)
		conntest.ExpectNothing(t, written)
		c.SetDeadline(time.Now().Add(-time.Second)) // while they wait
		expectTimeout(t, "Read", conntest.Receive(t, read))
		expectTimeout(t, "Write", conntest.Receive(t, written))
	})
}

// Both have begun on the direct way, and know nothing of deadlines that are set later.
func TestADeadlineThatIsSetInACutEndsCallsFromBeforeIt(t *testing.T) {
	t.Parallel()
	l := New()
	c := dial(t, l, newSilent(t))
	inner := c.Conn.(*conn)
	read, written := call(c.Read, 10), call(c.Write, 1<<16)
	until(t, "reading", func() bool { return inner.reads.Load() == 1 })
	conntest.ExpectNothing(t, written) // until the kernel's buffers are full
	l.Cut(Both)
	c.SetDeadline(time.Now())
	for _, err := range []error{conntest.Receive(t, read), conntest.Receive(t, written)} {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v, not a timeout", err)
		}
	}
}

func TestCloseEndsAReadAndAWrite(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, c *client) {
		read, written := call(c.Read, 10), call(c.Write, 1<<16)
		conntest.ExpectNothing(t, read)
		conntest.ExpectNothing(t, written)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range []error{conntest.Receive(t, read), conntest.Receive(t, written), c.Close(), c.SetDeadline(time.Time{})} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v, not closed", err)
			}
		}
		inner := c.Conn.(*conn)
		until(t, "without a reader", func() bool { inner.mu.Lock(); defer inner.mu.Unlock(); return !inner.receiving })
	})
}

func TestBytesKeepTheirOrderWhileFaultsComeAndGo(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the client
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			io.Copy(conn, conn)
		}
	}()
	l := New()
	c := dial(t, l, listener.Addr().String())
	var work sync.WaitGroup // ends with the bytes
	over := make(chan struct{})
	work.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				l.Delay(time.Duration(rand.IntN(3)) * 300 * time.Microsecond)
				time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond) // so that there are bytes in every state
			}
		}
	})
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	work.Go(func() {
		for rest := data; len(rest) > 0; {
			n := min(1+rand.IntN(20_000), len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	})
	got := make([]byte, size)
	c.SetReadDeadline(time.Now().Add(2 * conntest.Timeout))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Error(err)
	}
	close(over)
	work.Wait()
	if !bytes.Equal(got, data) {
		t.Error("the bytes changed")
	}
	l.Heal()
	c.direct()
}

// It may not run beside others, whose goroutines it would count.
func TestNoGoroutineStays(t *testing.T) {
	s, l := conntest.NewLineServer(t), New()
	for i := range 30 {
		c := dial(t, l, s.Addr)
		switch i % 3 {
		case 0:
			l.Cut(Both)
		case 1:
			l.Delay(time.Millisecond)
		case 2:
			l.SwallowReply()
		}
		c.send("a")
		if i%2 == 0 {
			c.Close()
		}
		l.Heal()
		if i%2 == 1 {
			c.Close()
		}
	}
	until(t, "without goroutines", func() bool { return !anyGoroutine() })
	if len(l.all()) != 0 {
		t.Errorf("the link still knows %d connections", len(l.all()))
	}
}

func TestNothingIsAllocatedWithoutAFault(t *testing.T) {
	c, buf := newConn(New(), instant{}), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = c.Write(buf)
		_, _ = c.Read(buf)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDirect(b *testing.B) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"net":  func(raw net.Conn) net.Conn { return raw },
		"link": func(raw net.Conn) net.Conn { return newConn(New(), raw) },
	} {
		b.Run(name, func(b *testing.B) {
			c := wrap(instant{})
			buf := make([]byte, 100)
			for b.Loop() {
				_, _ = c.Write(buf)
				_, _ = c.Read(buf)
			}
		})
	}
}

// An instant is a connection whose calls take no time.
type instant struct{ net.Conn }

func (instant) Read(b []byte) (int, error)  { return len(b), nil }
func (instant) Write(b []byte) (int, error) { return len(b), nil }
