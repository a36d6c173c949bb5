package faultproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// testTimeout bounds every wait of a test.
const testTimeout = 10 * time.Second

// A lineServer answers every line "x" with "x!", and reports what it saw.
type lineServer struct {
	addr  string
	calls chan net.Addr // every connection, by the client's address
	lines chan string   // every line, before the answer
	ends  chan error    // why a connection ended: io.EOF, or an error after a reset
}

func newLineServer(t *testing.T) *lineServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lineServer{
		addr:  listener.Addr().String(),
		calls: make(chan net.Addr, 1000),
		lines: make(chan string, 1000),
		ends:  make(chan error, 1000),
	}
	var work sync.WaitGroup // ends with the listener and the clients; the cleanup waits
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.calls <- conn.RemoteAddr()
			work.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return s
}

func (s *lineServer) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			s.ends <- err
			return
		}
		line = line[:len(line)-1]
		s.lines <- line
		fmt.Fprintf(conn, "%s!\n", line)
	}
}

// newEcho starts a server that returns every byte.
func newEcho(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup // ends with the listener and the clients; the cleanup waits
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return listener.Addr().String()
}

// newTalker starts a server that only sends, and returns a channel with the errors
// that ended it.
func newTalker(t *testing.T) (addr string, ends <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1000)
	var work sync.WaitGroup // ends with the listener and the clients; the cleanup waits
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				for {
					if _, err := io.WriteString(conn, "tick\n"); err != nil {
						stopped <- err
						return
					}
					time.Sleep(time.Millisecond) // so that the buffers do not fill up
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return listener.Addr().String(), stopped
}

// A client is one connection through the proxy.
type client struct {
	t *testing.T
	*net.TCPConn
	r *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "%s\n", line); err != nil {
		c.t.Fatalf("send %q: %v", line, err)
	}
}

func (c *client) expect(line string) {
	c.t.Helper()
	got, err := c.r.ReadString('\n')
	if err != nil || got != line+"\n" {
		c.t.Fatalf("read %q, %v; want %q", got, err, line)
	}
}

// expectReset waits until the connection ends with an error.
func (c *client) expectReset() {
	c.t.Helper()
	got, err := c.r.ReadString('\n')
	if netErr, ok := err.(net.Error); err == nil || err == io.EOF || ok && netErr.Timeout() {
		c.t.Fatalf("read %q, %v; want a reset", got, err)
	}
}

// expectNoConnection checks that a new connection is reset. The RST may arrive
// before connect has returned.
func expectNoConnection(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	(&client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}).expectReset()
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testTimeout):
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// chunksAt returns a channel of the chunks of one direction at one stage.
func chunksAt(p *Proxy, dir Direction, stage Stage) <-chan Chunk {
	c := make(chan Chunk, 1000)
	p.OnChunk(func(chunk Chunk) {
		if chunk.Dir == dir && chunk.Stage == stage {
			c <- chunk
		}
	})
	return c
}

// expectNothing fails if anything arrives that must be held back. The pause does
// not wait for an event: it gives a broken proxy time to show it.
func expectNothing[T any](t *testing.T, from <-chan T) {
	t.Helper()
	select {
	case v := <-from:
		t.Fatalf("came through: %v", v)
	case <-time.After(30 * time.Millisecond):
	}
}
