// Package conntest is what the tests of connections with faults share: a server at their
// far end, and how to wait for what comes or must not come through.
package conntest

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Timeout is how long a test waits for what must happen.
const Timeout = 30 * time.Second

// pause is how long a test gives something broken to show itself.
const pause = 30 * time.Millisecond

// Serve starts a server that runs serve for every connection and then closes it. It
// returns the server's address.
func Serve(t *testing.T, serve func(conn net.Conn)) string {
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
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return listener.Addr().String()
}

// A LineServer answers every line "x" with "x!", and reports what it saw.
type LineServer struct {
	Addr  string
	Calls chan net.Addr // every connection, by the client's address
	Lines chan string   // every line, before the answer
	Ends  chan error    // why a connection ended: io.EOF, or an error after a reset
}

// NewLineServer starts a LineServer.
func NewLineServer(t *testing.T) *LineServer {
	t.Helper()
	s := &LineServer{
		Calls: make(chan net.Addr, 1000),
		Lines: make(chan string, 1000),
		Ends:  make(chan error, 1000),
	}
	s.Addr = Serve(t, s.serve)
	return s
}

func (s *LineServer) serve(conn net.Conn) {
	s.Calls <- conn.RemoteAddr()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			s.Ends <- err
			return
		}
		line = line[:len(line)-1]
		s.Lines <- line
		fmt.Fprintf(conn, "%s!\n", line)
	}
}

// Receive returns what comes next.
func Receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Timeout):
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// ExpectNothing fails if anything comes that must be held back. The pause does not wait
// for an event: it gives what is broken time to show it.
func ExpectNothing[T any](t *testing.T, from <-chan T) {
	t.Helper()
	select {
	case v := <-from:
		t.Fatalf("came through: %v", v)
	case <-time.After(pause):
	}
}
