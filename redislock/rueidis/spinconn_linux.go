package rueidis

import (
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// newSpinConn returns a connection whose reader spins for a short time before it sleeps:
// a server on the same machine has replied by the time that a reader sleeps, and to be
// woken takes as long as the whole round trip.
//
// The reader spins only while a reply is due, no other such connection is in use, and
// replies have recently come within the time. So it costs nothing where the server is
// distant or busy, or where the process uses several connections; and it yields the
// processor to other processes. With one processor c is returned unchanged.
func newSpinConn(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok || runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	return spinOn(tcp, raw, &processActive)
}

func spinOn(tcp *net.TCPConn, raw syscall.RawConn, active *lastActive) *spinConn {
	c := &spinConn{TCPConn: tcp, raw: raw, active: active}
	c.tryRead = c.spin
	return c
}

// lastActive is the connection that was written to last. A connection that has been it
// for long is the only one in use.
type lastActive struct {
	long  time.Duration
	conn  atomic.Pointer[spinConn]
	since atomic.Int64 // after started
}

var (
	processActive = lastActive{long: time.Millisecond}
	started       = time.Now()
)

type spinConn struct {
	*net.TCPConn
	raw    syscall.RawConn
	active *lastActive
	due    atomic.Bool // a reply

	// Used by the reader; there is one at a time.
	trust   int // that the reply comes in time; below 0: the number of replies to sleep for
	into    []byte
	n       int
	late    bool
	tryRead func(uintptr) bool // spin, made once
}

const (
	spinTime  = 50 * time.Microsecond
	maxTrust  = 8  // replies in time that make up for a late one
	sleepsFor = 64 // replies after a late one
)

func (c *spinConn) Write(b []byte) (int, error) {
	c.due.Store(true)
	if c.active.conn.Load() != c {
		c.active.conn.Store(c)
		c.active.since.Store(int64(time.Since(started)))
	}
	return c.TCPConn.Write(b)
}

func (c *spinConn) Read(b []byte) (int, error) {
	defer c.due.Store(false) // whether or not the request was written before the Read began
	if !c.due.Load() {
		return c.TCPConn.Read(b)
	}
	if c.trust < 0 {
		c.trust++
		return c.TCPConn.Read(b)
	}
	c.into, c.n, c.late = b, 0, false
	err := c.raw.Read(c.tryRead)
	c.into = nil
	switch {
	case err != nil || c.n > 0:
		c.trust = min(c.trust+1, maxTrust)
		return c.n, err
	case c.late && c.trust == maxTrust:
		c.trust = 0
	case c.late:
		c.trust = -sleepsFor
	}
	return c.TCPConn.Read(b)
}

// spin reads until there is something, the time is over, or another connection is used.
// All errors are left to the Read that follows.
func (c *spinConn) spin(fd uintptr) bool {
	from := time.Since(started)
	if from-time.Duration(c.active.since.Load()) < c.active.long {
		return true
	}
	for c.active.conn.Load() == c {
		n, err := syscall.Read(int(fd), c.into)
		if n > 0 {
			c.n = n
			break
		}
		if c.late = time.Since(started)-from > spinTime; c.late || err != syscall.EAGAIN {
			break
		}
		_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // it may be the server that needs the processor
	}
	return true
}
