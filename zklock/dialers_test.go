package zklock

import (
	"net"
	"sync/atomic"
	"time"
)

// opGetChildren is what the library asks for children with.
const opGetChildren = 12

// A pauser makes connections that stop before the nth request of some kinds, and
// go on when they are told.
type pauser struct {
	ops     []int32
	nth     int64
	seen    atomic.Int64
	stopped chan struct{} // closed by the connection
	goOn    chan struct{} // closed by the test
}

func newPauser(nth int64, ops ...int32) *pauser {
	return &pauser{ops: ops, nth: nth, stopped: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *pauser) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	return &paused{Conn: conn, p: p}, err
}

type paused struct {
	net.Conn
	p      *pauser
	shaken bool
}

func (c *paused) Write(frame []byte) (int, error) {
	for _, op := range c.p.ops {
		if c.shaken && asks(op)(frame) && c.p.seen.Add(1) == c.p.nth {
			close(c.p.stopped)
			<-c.p.goOn
		}
	}
	c.shaken = true
	return c.Conn.Write(frame)
}
