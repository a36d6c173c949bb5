package faultproxy

// A Stage is a stage in the life of a chunk.
type Stage uint8

// The stages of a chunk. Each chunk arrives, and is then forwarded, swallowed, or
// lost with its connection.
const (
	Arrived   Stage = iota + 1 // read from its sender; faults still apply
	Forwarded                  // past all faults; its first byte is about to be written
	Swallowed                  // dropped by SwallowReplies
)

// A Chunk is the result of one read from a connection. It is usually one request or
// reply if those are small, but this is not guaranteed.
type Chunk struct {
	Conn  int       // the connection's number, from 1, in the order of acceptance
	Dir   Direction // ToServer or ToClient
	Stage Stage
	Data  []byte // may be kept but not modified
}

// OnChunk calls f for every chunk at every stage; nil disables it. Within one
// connection, direction and stage, calls are in the order of the bytes; otherwise
// calls may be concurrent. The chunk waits until f returns: a fault that f sets for
// an Arrived chunk applies to that chunk, and a fault set when a request is
// Forwarded applies to its reply. Heal does not disable it.
func (p *Proxy) OnChunk(f func(Chunk)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onChunk = f
}

// reportChunk counts a chunk and passes it to the OnChunk function, without holding
// the mutex.
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
