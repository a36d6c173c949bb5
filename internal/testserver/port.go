package testserver

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// given holds the ports in use by the servers of this process, running or not: a
// server that is down keeps its port for its restart.
var given = struct {
	mu    sync.Mutex // guards ports
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns a port of 127.0.0.1 that nothing listens on, and that no other
// call in this process returns until the test has ended. Another process may take
// it before the caller does.
func FreePort(t testing.TB) int {
	t.Helper()
	// The kernel may offer a port again that was given out before and is not
	// listened on yet; it does not do so many times in a row.
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("free port: %v", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if !take(port) {
			continue
		}
		t.Cleanup(func() { giveBack(port) })
		return port
	}
	t.Fatal("free port: all that were offered are in use by this process")
	panic("not reached")
}

func take(port int) bool {
	given.mu.Lock()
	defer given.mu.Unlock()
	if given.ports[port] {
		return false
	}
	given.ports[port] = true
	return true
}

func giveBack(port int) {
	given.mu.Lock()
	defer given.mu.Unlock()
	delete(given.ports, port)
}

// free reports whether a server could listen on port now.
func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
