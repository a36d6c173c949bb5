package quorum

import (
	"sync/atomic"
	"time"
)

// A proposer proposes tokens, so that the nodes usually grant the same one and one
// round is enough. It proposes the time of this machine's clock, plus an offset where
// the nodes' tokens are ahead of it. Only the number of rounds depends on it.
type proposer struct {
	offset atomic.Int64 // microseconds
}

// maxOffset keeps proposals below the second ahead of its clock that a node accepts.
const maxOffset = 900 * time.Millisecond

func (p *proposer) propose() uint64 {
	return uint64(time.Now().UnixMicro() + p.offset.Load())
}

// learn raises the offset to a token that a node has granted.
func (p *proposer) learn(token uint64) {
	offset := min(int64(token)-time.Now().UnixMicro(), maxOffset.Microseconds())
	for {
		known := p.offset.Load()
		if offset <= known || p.offset.CompareAndSwap(known, offset) {
			return
		}
	}
}
