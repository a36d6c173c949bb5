// Package faultproxy is a TCP proxy for tests that delays, throttles, holds back,
// cuts and swallows data.
//
// It does not drop or reorder single bytes, because TCP never exposes that to a
// program: a broken network shows up as silence, delay or the end of a connection,
// and those are the available faults. Two things differ from a real network. A
// client's connect succeeds before the proxy has tried the server, so a server that
// is down shows up as a reset instead of a refusal. And the kernel buffers data on
// both sides of the proxy, so a writer notices a silent peer later than it would
// otherwise.
//
// Faults can be changed at any time and apply to existing and future connections.
// All methods may be called from any goroutine, including from the function given
// to [Proxy.OnChunk].
package faultproxy

import (
	"context"
	"errors"
	"net"
	"testing"
)

// New starts a proxy to target on a free port of 127.0.0.1, without faults. At the
// end of the test its connections are reset, and all its goroutines have ended
// before cleanups that were registered earlier run.
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
	p.work.Go(p.accept) // ends when the listener is closed; close waits for it
	t.Cleanup(p.close)
	return p
}

// Addr returns the address for clients, as host:port. It does not change.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget directs new connections to another server, like an address that moves to
// another machine. Existing connections stay.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Connections returns the number of accepted connections, including ended ones, but
// without those that [Proxy.Refuse] reset.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Reached returns the number of connections that reached the server, without those
// made while it was down.
func (p *Proxy) Reached() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}

// Open returns the number of current connections. A connection counts until the
// proxy has forwarded the end of both directions or a reset.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Refused returns the number of connections that [Proxy.Refuse] reset.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Swallowed returns the number of replies that [Proxy.SwallowReplies] swallowed.
func (p *Proxy) Swallowed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallowed
}

// Forwarded returns the number of chunks forwarded in a direction; with [Both] the
// sum. When a client has read a reply, its chunks are counted.
func (p *Proxy) Forwarded(dir Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0
	for _, i := range dir.indexes() {
		sum += p.forwarded[i]
	}
	return sum
}

// Reset ends all current connections with an RST to both sides; data in transit is
// lost. New connections are not affected. It does not wait until the peers notice.
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
		if err != nil { // for example too many open files: a proxy that fails silently would be hard to debug
			p.t.Errorf("fault proxy to %s: %v", p.currentTarget(), err)
			return
		}
		l := p.admit(conn.(*net.TCPConn))
		if l == nil {
			reset(conn.(*net.TCPConn))
			continue
		}
		p.work.Go(l.serve) // ends with the connection; close ends all of them and waits
	}
}

// admit creates a proxiedConn for a client's connection, or returns nil if it is
// refused.
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

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true // otherwise a connection accepted after the Reset below would be missed
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.work.Wait()
}
