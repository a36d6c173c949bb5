package redislock

import (
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// Awake returns the connection c with a reader that stays awake for an answer which
// is about to come: a near server has answered by the time that a reader has gone to
// sleep, and to be woken then takes as long as the whole trip. It is for the dialer
// of a client that is used by a few goroutines at a time; a client that was opened
// by URL has it.
//
// The reader stays awake only while an answer is due and no other such connection is
// in use, and where answers have come that soon lately. So where the server is far or
// busy, or the process has more to ask, it costs nothing; and another process that
// wants the processor gets it. On systems other than Linux, and where there is one
// processor, c is returned as it is.
func Awake(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok || runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	return newAwake(tcp, raw, &here)
}

func newAwake(tcp *net.TCPConn, raw syscall.RawConn, on *floor) *awake {
	a := &awake{TCPConn: tcp, raw: raw, on: on}
	a.look = a.watch
	return a
}

// A floor is had by the connection that was written to last. Who has it for long has
// it alone.
type floor struct {
	long  time.Duration
	who   atomic.Pointer[awake]
	since atomic.Int64 // after begun
}

// here is the floor of this process.
var (
	here  = floor{long: time.Millisecond}
	begun = time.Now()
)

type awake struct {
	*net.TCPConn
	raw   syscall.RawConn
	on    *floor
	asked atomic.Bool // an answer is due

	// Of who reads: there is one at a time.
	trust int // in that the answer comes in time; below 0: for so many answers it sleeps
	into  []byte
	n     int
	late  bool
	look  func(uintptr) bool // watch, made once
}

const (
	awakeFor = 50 * time.Microsecond
	trusting = 8  // as many answers that came in time make good for one that does not
	asleep   = 64 // answers that it sleeps for after one that does not
)

func (a *awake) Write(b []byte) (int, error) {
	a.asked.Store(true)
	if a.on.who.Load() != a {
		a.on.who.Store(a)
		a.on.since.Store(int64(time.Since(begun)))
	}
	return a.TCPConn.Write(b)
}

func (a *awake) Read(b []byte) (int, error) {
	defer a.asked.Store(false) // whether or not it was asked before the Read began
	if !a.asked.Load() {
		return a.TCPConn.Read(b)
	}
	if a.trust < 0 {
		a.trust++
		return a.TCPConn.Read(b)
	}
	a.into, a.n, a.late = b, 0, false
	err := a.raw.Read(a.look)
	a.into = nil
	switch {
	case err != nil || a.n > 0:
		a.trust = min(a.trust+1, trusting)
		return a.n, err
	case a.late && a.trust == trusting:
		a.trust = 0
	case a.late:
		a.trust = -asleep
	}
	return a.TCPConn.Read(b)
}

// watch reads until there is something, the time is over, or another connection is
// used. Whatever goes wrong is left to the Read that follows.
func (a *awake) watch(fd uintptr) bool {
	from := time.Since(begun)
	if from-time.Duration(a.on.since.Load()) < a.on.long {
		return true
	}
	for a.on.who.Load() == a {
		n, err := syscall.Read(int(fd), a.into)
		if n > 0 {
			a.n = n
			break
		}
		if a.late = time.Since(begun)-from > awakeFor; a.late || err != syscall.EAGAIN {
			break
		}
		_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // it may be the server that has to wait
	}
	return true
}
