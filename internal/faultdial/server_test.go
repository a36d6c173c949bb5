package faultdial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

// A client is one connection through a Link.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, l *Link, addr string) *client {
	t.Helper()
	conn, err := l.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Cleanup(l.Heal) // a server does not learn of the end of a connection in a cut
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "%s\n", line); err != nil {
		c.t.Fatalf("send %q: %v", line, err)
	}
}

func (c *client) expect(line string) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(conntest.Timeout))
	defer c.SetReadDeadline(time.Time{})
	got, err := c.r.ReadString('\n')
	if err != nil || got != line+"\n" {
		c.t.Fatalf("read %q, %v; want %q", got, err, line)
	}
}

func (c *client) expectReset() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(conntest.Timeout))
	if got, err := c.r.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("read %q, %v; want a reset", got, err)
	}
}

// expectSilence fails if anything can be read. It does not wait for an event: it gives a
// broken Link time to show it.
func (c *client) expectSilence() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	defer c.SetReadDeadline(time.Time{})
	if got, err := c.r.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %q, %v; want silence", got, err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > conntest.Timeout {
			t.Fatalf("not %s", what)
		}
	}
}

// anyGoroutine reports whether a connection has one, also one that has not begun yet.
func anyGoroutine() bool {
	buf := make([]byte, 1<<20)
	return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "faultdial.(*conn)")
}

// direct waits until a connection is on its direct way.
func (c *client) direct() {
	c.t.Helper()
	until(c.t, "direct again", func() bool { return !c.Conn.(*conn).queued.Load() })
}

// background dials in a goroutine.
func background(ctx context.Context, l *Link, addr string) <-chan error {
	done := make(chan error, 1)
	go func() { // ends with ctx
		conn, err := l.Dial(ctx, "tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		done <- err
	}()
	return done
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
