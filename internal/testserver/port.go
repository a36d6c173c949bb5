package testserver

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// usedPorts are the ports of this process's servers, running or not: a server that
// is down keeps its port for a restart.
var usedPorts = struct {
	mu    sync.Mutex // guards ports
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns an unused port of 127.0.0.1 that no other call, in this process or in
// another one that runs tests, returns until the test has ended. A program that is not a
// test may take it before the caller does, but no outgoing connection will: it is below
// the ephemeral ports. A stopped server could not get such a port back.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, last = 10_000, 32_767
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if !reservePort(port) {
			continue
		}
		if !canListen(port) {
			releasePort(port)
			continue
		}
		t.Cleanup(func() { releasePort(port) })
		return port
	}
	t.Fatal("free port: a thousand that were tried are in use")
	panic("not reached")
}

func reservePort(port int) bool {
	usedPorts.mu.Lock()
	defer usedPorts.mu.Unlock()
	if usedPorts.ports[port] || !lockPort(port) {
		return false
	}
	usedPorts.ports[port] = true
	return true
}

func releasePort(port int) {
	usedPorts.mu.Lock()
	defer usedPorts.mu.Unlock()
	delete(usedPorts.ports, port)
	unlockPort(port)
}

// canListen reports whether a server could listen on port now.
func canListen(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
