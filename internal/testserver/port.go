package testserver

import (
	"math/rand/v2"
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
// it before the caller does, but no connection will: it is below the ports that
// systems give to those, which a server that is down could not have back.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, last = 10_000, 32_767
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if !take(port) {
			continue
		}
		if !free(port) {
			giveBack(port)
			continue
		}
		t.Cleanup(func() { giveBack(port) })
		return port
	}
	t.Fatal("free port: a thousand that were tried are in use")
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
