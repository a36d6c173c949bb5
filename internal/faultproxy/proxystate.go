package faultproxy

import (
	"net"
	"sync"
	"testing"
)

// A Proxy forwards TCP connections to one target, with faults. [New] creates it.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	work     sync.WaitGroup // all goroutines of the proxy and its connections; close waits for it

	mu        sync.Mutex // guards everything below
	closed    bool
	target    string
	links     map[*proxiedConn]bool
	faults    [2]faults // by Direction.index
	refuse    bool
	swallow   swallow
	changed   chan struct{} // closed and replaced whenever a fault changes
	onChunk   func(Chunk)
	accepted  int
	reached   int
	refused   int
	swallowed int
	forwarded [2]int // by Direction.index
}

func (p *Proxy) currentTarget() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// countReached counts a connection that reached the server.
func (p *Proxy) countReached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached++
}

func (p *Proxy) forget(l *proxiedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// reset closes c with an RST instead of a FIN.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
