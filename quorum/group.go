package quorum

import (
	"context"
	"sync/atomic"
)

// A group is calls at several nodes that have one limit in time.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   atomic.Int32
}

// done is told of each call that has come back.
func (g *group) done() {
	if g.left.Add(-1) == 0 {
		g.cancel()
	}
}
