package faultproxy

// A Stage says what happens to a chunk.
type Stage uint8

// The stages of a chunk. Each one arrives, and is then forwarded, swallowed, or
// lost with its connection.
const (
	Arrived   Stage = iota + 1 // read from its sender; faults are yet to come
	Forwarded                  // past all faults; the first byte is about to be written
	Swallowed                  // taken away by SwallowReplies
)

// A Chunk is what one read from a connection gave: in practice a request or a
// reply when these are small, but nothing promises that.
type Chunk struct {
	Conn  int       // the connection, numbered from 1 as they were accepted
	Dir   Direction // ToServer or ToClient
	Stage Stage
	Data  []byte // may be kept, must not be changed
}

// OnChunk has f called for every chunk at every stage; nil ends it. Calls for one
// connection and direction are in order of the bytes within a stage; otherwise
// calls may be concurrent. The chunk waits for f to return, so that a fault set
// by f when a chunk has arrived holds for that chunk, and one set when a request
// is forwarded holds for its reply. Heal does not end it.
func (p *Proxy) OnChunk(f func(Chunk)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onChunk = f
}

// tell counts a chunk and shows it to the caller's function, without the mutex.
func (l *proxiedConn) reportChunk(dir Direction, stage Stage, data []byte) {
	p := l.proxy
	p.mu.Lock()
	if stage == Forwarded {
		p.forwarded[dir.index()]++
	}
	f := p.onChunk
	p.mu.Unlock()
	if f != nil {
		f(Chunk{Conn: l.id, Dir: dir, Stage: stage, Data: data})
	}
}
