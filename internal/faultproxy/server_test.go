package faultproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

// newEcho starts a server that returns every byte.
func newEcho(t *testing.T) string {
	t.Helper()
	return conntest.Serve(t, func(conn net.Conn) { io.Copy(conn, conn) })
}

// newTalker starts a server that only sends, and returns a channel with the errors
// that ended it.
func newTalker(t *testing.T) (addr string, ends <-chan error) {
	t.Helper()
	stopped := make(chan error, 1000)
	return conntest.Serve(t, func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, "tick\n"); err != nil {
				stopped <- err
				return
			}
			time.Sleep(time.Millisecond) // so that the buffers do not fill up
		}
	}), stopped
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
	conn.SetDeadline(time.Now().Add(conntest.Timeout))
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
	conn.SetDeadline(time.Now().Add(conntest.Timeout))
	(&client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}).expectReset()
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
