package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
)

// A link is one client's connection and the one made to the server for it.
type proxiedConn struct {
	proxy  *Proxy
	id     int
	client *net.TCPConn
	ctx    context.Context // ends with the link
	cancel context.CancelFunc

	mu       sync.Mutex   // guards all below
	server   *net.TCPConn // nil until connected
	ended    bool
	finished int // directions whose end was passed on
	exchange lastExchange
}

// serve connects to the server and runs both directions until the link ends.
func (l *proxiedConn) serve() {
	defer l.end(true)
	// Who cannot reach the server cannot connect to it either.
	up := &pipe{conn: l, dir: ToServer}
	if !up.waitUntilDue() {
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(l.ctx, "tcp", l.proxy.currentTarget())
	if err != nil || !l.setServer(conn.(*net.TCPConn)) {
		return
	}
	l.proxy.countReached()
	up.src, up.dst = l.client, l.server
	down := &pipe{conn: l, dir: ToClient, src: l.server, dst: l.client}
	up.queue, down.queue = newQueue(), newQueue()
	up.back, down.back = down.queue, up.queue

	var work sync.WaitGroup // the link's goroutines; serve waits for them
	work.Go(up.read)
	work.Go(up.write)
	work.Go(down.read)
	work.Go(down.write)
	work.Wait()
}

// attach gives the link its connection to the server, unless the link has ended
// while it was being made.
func (l *proxiedConn) setServer(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		reset(server)
		return false
	}
	l.server = server
	return true
}

// end closes both connections and with them ends all that works on the link; a
// second call does nothing. It does not wait, since the caller's function of
// OnChunk may be the one that asks for it.
func (l *proxiedConn) end(withReset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	for _, c := range []*net.TCPConn{l.client, l.server} {
		switch {
		case c == nil:
		case withReset:
			reset(c)
		default:
			c.Close()
		}
	}
	l.cancel()
	l.proxy.forget(l)
}

// finish notes that one direction has passed on its end; with both the link ends.
func (l *proxiedConn) finish() {
	l.mu.Lock()
	l.finished++
	both := l.finished == 2
	l.mu.Unlock()
	if both {
		l.end(false)
	}
}

// A pipe is one direction of a link: a reader that never waits for a fault, so
// that every byte's time of arrival is known, and a writer that does.
type pipe struct {
	conn  *proxiedConn
	dir   Direction
	src   *net.TCPConn
	dst   *net.TCPConn
	queue *queue // from read to write
	back  *queue // that of the opposite pipe
	timing
}

// read fills the queue until src ends.
func (p *pipe) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.src.Read(buf)
		if n > 0 && !p.enqueue(append([]byte(nil), buf[:n]...)) {
			return
		}
		switch {
		case err == io.EOF:
			p.queue.push(item{kind: finish})
			return
		case err != nil:
			p.queue.push(item{kind: abort})
			return
		}
	}
}

// arrive takes one chunk in; false: the link has ended.
func (p *pipe) enqueue(data []byte) bool {
	l := p.conn
	l.reportChunk(p.dir, Arrived, data)
	if p.dir == ToClient {
		if gone, cut := l.swallowsReply(); gone {
			l.reportChunk(p.dir, Swallowed, data)
			if cut {
				l.end(true)
			}
			return !cut
		}
	}
	p.queue.push(item{kind: chunk, data: data})
	return p.queue.room(l.ctx)
}

// write empties the queue, in order and under the faults, until the link ends. It
// goes on after the end of its own direction: a reset may still follow.
func (p *pipe) write() {
	for {
		it, ok := p.queue.pop(p.conn.ctx)
		if !ok {
			return
		}
		p.since = it.at
		if !p.waitUntilDue() {
			return
		}
		switch it.kind {
		case chunk:
			if !p.forward(it.data) {
				return
			}
		case finish:
			p.dst.CloseWrite() // fails only where a reset is on its way to tell the same
			p.conn.finish()
		case abort:
			p.conn.end(true)
			return
		}
	}
}

// forward writes one chunk as fast as the faults allow; false: the link has ended.
func (p *pipe) forward(data []byte) bool {
	p.conn.reportChunk(p.dir, Forwarded, data)
	if p.dir == ToServer {
		p.conn.recordRequest(data)
	}
	for len(data) > 0 {
		n, ok := p.waitForBytes(len(data))
		if !ok {
			return false
		}
		if _, err := p.dst.Write(data[:n]); err != nil {
			// dst is gone. The news travels back the other way and under its
			// faults: behind a black hole the sender must not learn of it.
			p.back.push(item{kind: abort})
			return true
		}
		data = data[n:]
	}
	return true
}
