package faultdial

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Direction is a direction of data flow.
type Direction uint8

// The directions.
const (
	Requests Direction = 1 << iota // from this process to the server
	Replies                        // from the server

	Both = Requests | Replies
)

// String returns the direction for messages.
func (d Direction) String() string {
	switch d {
	case Requests:
		return "requests"
	case Replies:
		return "replies"
	case Both:
		return "both ways"
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// A Link is the way of one process to its store. It is safe for concurrent use.
type Link struct {
	mu      sync.Mutex // guards what follows; taken before that of a conn
	conns   map[*conn]bool
	faults  faults
	changed chan struct{} // closed, and replaced, when faults change

	dialled, held, lost, swallowed, reset atomic.Int64
}

// faults are what a Link does to all its connections.
type faults struct {
	cut   Direction
	delay time.Duration
}

// Counts are how often a Link has done what.
type Counts struct {
	Dialled   int // connections that were made
	Held      int // connections whose making had to wait for a fault
	Lost      int // connections that lost bytes in a cut
	Swallowed int // connections of which a reply was swallowed
	Reset     int // connections that were reset, for whatever fault
}

// New returns a Link without faults.
func New() *Link { return &Link{conns: map[*conn]bool{}, changed: make(chan struct{})} }

// Counts returns what was done so far.
func (l *Link) Counts() Counts {
	return Counts{
		Dialled: int(l.dialled.Load()), Held: int(l.held.Load()), Lost: int(l.lost.Load()),
		Swallowed: int(l.swallowed.Load()), Reset: int(l.reset.Load()),
	}
}

// Connections returns the number of connections that the process has open, also those
// that are silent or were reset and that it has not closed yet.
func (l *Link) Connections() (n int) {
	for _, c := range l.all() {
		c.mu.Lock()
		if !c.closed {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

// Cut keeps back all bytes of a direction silently, as on a broken cable, in addition to
// what is cut already; only [Link.Heal] ends it. Connections stay open; of one that the
// process closes, the server does not learn while requests are cut. New connections wait
// until the Link is healed or their ctx ends.
//
// What is kept back is lost: a connection that lost bytes is reset by Heal.
func (l *Link) Cut(d Direction) {
	if d == 0 || d&^Both != 0 {
		panic("faultdial: unknown " + d.String())
	}
	l.change(func(f *faults) { f.cut |= d })
}

// Delay delays every byte by d in each direction, on top of the network; 0 ends it. The
// order is kept and delays overlap: a delay costs latency, not throughput. It also applies
// to bytes under way, from when they were sent. A new connection takes 2d longer.
func (l *Link) Delay(d time.Duration) {
	if d < 0 {
		panic("faultdial: negative delay")
	}
	l.change(func(f *faults) { f.delay = d })
}

// SwallowReply applies to each connection that is open now, once: its next request
// reaches the server, nothing that comes after it reaches this process, and the
// connection is reset shortly after the reply would have come, or a second after the
// request if nothing comes. Heal ends it for connections that were not used since.
func (l *Link) SwallowReply() {
	for _, c := range l.all() {
		c.swallowNext()
	}
}

// Reset ends every connection at once, with an RST where the network has that. What is
// under way is lost.
func (l *Link) Reset() {
	for _, c := range l.all() {
		c.resetNow()
	}
}

// Heal ends all faults. Bytes that were delayed arrive at once; connections that lost
// bytes are reset.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(faults{})
	for c := range l.conns {
		if c.heal() {
			delete(l.conns, c)
		}
	}
}

func (l *Link) change(set func(*faults)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults
	set(&f)
	l.setLocked(f)
	for c := range l.conns {
		c.apply(f)
	}
}

func (l *Link) setLocked(f faults) {
	l.faults = f
	close(l.changed)
	l.changed = make(chan struct{})
}

// all returns the connections, so that one of them can be forgotten meanwhile.
func (l *Link) all() (all []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
