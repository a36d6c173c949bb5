package faultproxy

import (
	"fmt"
	"time"
)

// A Direction says which way bytes flow.
type Direction uint8

// The directions; where a method takes one, Both means each of the two.
const (
	ToServer Direction = 1 << iota // what the client sends: requests
	ToClient                       // what the server sends: replies

	Both = ToServer | ToClient
)

// String returns the direction as a word for messages.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to server"
	case ToClient:
		return "to client"
	case Both:
		return "both ways"
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// index is where a single direction is found in the arrays of a Proxy.
func (d Direction) index() int { return int(d) - 1 }

func (d Direction) indexes() []int {
	switch d {
	case ToServer, ToClient:
		return []int{d.index()}
	case Both:
		return []int{ToServer.index(), ToClient.index()}
	}
	panic("faultproxy: unknown " + d.String())
}

// faults are those of one direction.
type faults struct {
	delay time.Duration
	rate  int // bytes per second; 0: no limit
	black bool
}

// Delay makes every byte arrive d later than it was sent; 0 ends the fault. Order
// is kept and bytes travel side by side: a delay costs latency, not throughput.
// It holds for bytes already on their way too, counted from when they were sent.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	if d < 0 {
		panic("faultproxy: negative delay")
	}
	p.change(dir, func(f *faults) { f.delay = d })
}

// Throttle lets each connection pass at most so many bytes in a second; 0 ends
// the fault. The first bytes after a silence go at once, a twentieth of a
// second's worth or one byte, whichever is more.
func (p *Proxy) Throttle(dir Direction, bytesPerSecond int) {
	if bytesPerSecond < 0 {
		panic("faultproxy: negative rate")
	}
	p.change(dir, func(f *faults) { f.rate = bytesPerSecond })
}

// BlackHole stops everything in the given direction, the end of a connection
// included, and tells nobody. Connections stay open; one that is made meanwhile
// is accepted, and reaches the server only when the way to it is open again.
//
// What was sent into it is held, not dropped: [Proxy.Heal] delivers it late, as
// TCP does after a partition. For a partition that outlives the connections, call
// [Proxy.Reset] before Heal.
func (p *Proxy) BlackHole(dir Direction) {
	p.change(dir, func(f *faults) { f.black = true })
}

// Refuse turns new connections away with a RST right after they are accepted: the
// client sees it when it connects or at its first read or write. Present ones are not affected.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Heal ends all faults. What they held back goes on at once; what they swallowed
// or reset stays lost.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = [2]faults{}
	p.refuse = false
	p.swallow = swallow{}
	p.notifyLocked()
}

func (p *Proxy) change(dir Direction, set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range dir.indexes() {
		set(&p.faults[i])
	}
	p.notifyLocked()
}

// announceLocked wakes all who wait under the faults of before.
func (p *Proxy) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// present returns the faults of a single direction and a channel that closes when
// any fault changes.
func (p *Proxy) current(dir Direction) (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[dir.index()], p.changed
}
