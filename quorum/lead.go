package quorum

import (
	"sync/atomic"
	"time"
)

// A lead proposes tokens to the nodes, so that they usually agree in one round.
// It is this machine's clock, moved ahead when the nodes' counts are ahead of
// it. Nothing but the number of rounds depends on it.
type lead struct {
	ahead atomic.Int64 // microseconds
}

// maxLead keeps proposals below what nodes cut them to.
const maxLead = 900 * time.Millisecond

func (l *lead) propose() uint64 {
	return uint64(time.Now().UnixMicro() + l.ahead.Load())
}

// learn takes note of a token that a node has granted.
func (l *lead) learn(token uint64) {
	ahead := min(int64(token)-time.Now().UnixMicro(), maxLead.Microseconds())
	for {
		known := l.ahead.Load()
		if ahead <= known || l.ahead.CompareAndSwap(known, ahead) {
			return
		}
	}
}
