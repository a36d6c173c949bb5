// Package faultproxy is a TCP proxy for tests that delays, throttles, holds,
// cuts and swallows what passes through it.
//
// It does not drop or reorder single bytes, because TCP never shows that to a
// program: what a broken network does to a connection is silence, lateness or
// an end, and these are the faults there are. Two things differ from a real
// network. A client's connect succeeds before the proxy has tried the server,
// so that a server that is down shows as a reset and not as a refusal. And the
// kernel buffers on both sides of the proxy, so that a writer learns of a
// silent peer later than it stops being heard.
//
// Faults are set live, on present and future connections alike. Every method
// may be called from any goroutine, also from within the function given to
// [Proxy.OnChunk].
package faultproxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// A Proxy forwards TCP connections to one target, with faults. [New] makes it.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	work     sync.WaitGroup // every goroutine of the proxy and its links; close waits for it

	mu        sync.Mutex // guards all below
	closed    bool
	target    string
	links     map[*proxiedConn]bool
	faults    [2]faults // by Direction.index
	refuse    bool
	swallow   swallow
	changed   chan struct{} // closed and replaced by every change of a fault
	onChunk   func(Chunk)
	accepted  int
	reached   int
	refused   int
	swallowed int
	forwarded [2]int // by Direction.index
}

// New starts a proxy to target on a free port of 127.0.0.1, without any fault.
// When the test ends, its connections are reset and all its goroutines have ended
// before the cleanups registered earlier run.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("fault proxy to %s: %v", target, err)
	}
	p := &Proxy{
		t:        t,
		target:   target,
		listener: listener,
		links:    map[*proxiedConn]bool{},
		changed:  make(chan struct{}),
	}
	p.work.Go(p.accept) // ends when the listener closes; close waits for it
	t.Cleanup(p.close)
	return p
}

// Addr returns the address clients connect to, as host:port. It does not change.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget leads connections that are made from now on to another server, as an
// address does that was given to another machine. Present ones stay where they are.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) currentTarget() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Connections returns how many connections were taken so far, those that have
// ended included and those that [Proxy.Refuse] turned away not.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Reached returns how many connections led to the server so far: not those that came
// while it was gone.
func (p *Proxy) Reached() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}

// Open returns how many connections there are now. A connection counts until the
// proxy has passed on the end of both directions or was told of a reset.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Refused returns how many connections [Proxy.Refuse] turned away so far.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Swallowed returns how many replies [Proxy.SwallowReplies] swallowed so far.
func (p *Proxy) Swallowed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallowed
}

// Forwarded returns how many chunks went on in the given direction so far, with
// [Both] the sum. A client that has read a reply finds its chunks counted.
func (p *Proxy) Forwarded(dir Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0
	for _, i := range dir.indexes() {
		sum += p.forwarded[i]
	}
	return sum
}

// Reset ends all present connections with a RST to both sides; bytes still on
// their way are lost. New connections are not affected. It does not wait for the
// peers to notice.
func (p *Proxy) Reset() {
	p.mu.Lock()
	links := make([]*proxiedConn, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end(true)
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, say: a silent proxy would be hunted for elsewhere
			p.t.Errorf("fault proxy to %s: %v", p.currentTarget(), err)
			return
		}
		l := p.admit(conn.(*net.TCPConn))
		if l == nil {
			reset(conn.(*net.TCPConn))
			continue
		}
		p.work.Go(l.serve) // ends with the link; close ends every link and waits
	}
}

// admit makes a link of a client's connection, or nil when it is turned away.
func (p *Proxy) admit(client *net.TCPConn) *proxiedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.refuse {
		p.refused++
		return nil
	}
	p.accepted++
	l := &proxiedConn{proxy: p, id: p.accepted, client: client}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	p.links[l] = true
	return l
}

// reach counts a connection that leads to the server.
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

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true // a connection accepted after Reset below would be missed otherwise
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.work.Wait()
}

// reset closes c with a RST instead of a FIN.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
