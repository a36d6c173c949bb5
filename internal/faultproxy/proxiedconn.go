package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
)

// A proxiedConn is a client's connection together with the one to the server.
type proxiedConn struct {
	proxy  *Proxy
	id     int
	client *net.TCPConn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	mu       sync.Mutex   // guards everything below
	server   *net.TCPConn // nil until connected
	ended    bool
	finished int // directions whose end was forwarded
	exchange lastExchange
}

// serve connects to the server and copies both directions until the connection
// ends.
func (l *proxiedConn) serve() {
	defer l.end(true)
	// If the way to the server is blocked, connecting to it waits too.
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

	var work sync.WaitGroup // the goroutines of this connection; serve waits for them
	work.Go(up.read)
	work.Go(up.write)
	work.Go(down.read)
	work.Go(down.write)
	work.Wait()
}

// setServer sets the connection to the server. It returns false if the client's
// connection has ended meanwhile.
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

// end closes both connections, which ends all goroutines of this one; further calls
// do nothing. It does not wait for them, because the OnChunk function may be the
// caller.
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

// finish records that one direction has ended; after both, the connection ends.
func (l *proxiedConn) finish() {
	l.mu.Lock()
	l.finished++
	both := l.finished == 2
	l.mu.Unlock()
	if both {
		l.end(false)
	}
}

// A pipe is one direction of a proxiedConn: a reader that never waits for faults,
// so that every byte's time of arrival is known, and a writer that does.
type pipe struct {
	conn  *proxiedConn
	dir   Direction
	src   *net.TCPConn
	dst   *net.TCPConn
	queue *queue // from read to write
	back  *queue // the queue of the opposite pipe
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

// enqueue queues one chunk. It returns false if the connection has ended.
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

// write empties the queue in order, under the current faults, until the connection
// ends. It continues after the end of its own direction because a reset may follow.
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
			p.dst.CloseWrite() // fails only if a reset, which reports the same, is on its way
			p.conn.finish()
		case abort:
			p.conn.end(true)
			return
		}
	}
}

// forward writes one chunk as fast as the faults allow. It returns false if the
// connection has ended.
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
			// dst is gone. The sender learns that through the opposite direction,
			// under its faults: behind a black hole it must not learn it.
			p.back.push(item{kind: abort})
			return true
		}
		data = data[n:]
	}
	return true
}
