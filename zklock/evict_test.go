package zklock

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

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

// A waiter that had no desk yet when its eviction began has one when it is carried
// out: it must be told all the same, or it takes the next event for its turn.
func TestAWaiterThatSitsDownWhileItIsEvictedIsTold(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	plain := connect(t, []string{one(t)}, Path(path))
	holder, waiter := mutex(), mutex()
	a := open(t, plain, time.Minute)
	hold(t, a, holder)

	enters := newPauser(1, opCreate) // before it makes its desk
	late := connect(t, []string{one(t)}, Path(path), Dial(enters.dial))
	s := open(t, late, time.Minute)
	entered := make(chan driver.Standing, 1)
	go func() {
		st, err := s.Enter(t.Context(), waiter)
		if err != nil {
			t.Errorf("Enter: %v", err)
		}
		entered <- st
	}()
	<-enters.stopped

	evicts := newPauser(3, opMulti, opDelete) // the first is a witness, the second finds no desk
	admin := connect(t, []string{one(t)}, Path(path), Dial(evicts.dial))
	evicted := make(chan error, 1)
	x := listed(t, plain, "job")[1]
	go func() { evicted <- admin.Evict(t.Context(), x) }()
	<-evicts.stopped
	close(enters.goOn)
	if st := <-entered; st.Held || st.Gone {
		t.Fatalf("Enter: %+v, not waiting", st)
	}
	close(evicts.goOn)
	if err := <-evicted; err != nil {
		t.Fatalf("Evict: %v", err)
	}
	leave(t, a, holder)
	if st, err := s.Await(t.Context(), waiter, driver.Standing{}); err != nil || !st.Gone {
		t.Errorf("an evicted waiter: %+v, %v, not Gone", st, err)
	}
}
