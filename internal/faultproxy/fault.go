package faultproxy

import (
	"fmt"
	"time"
)

// A Direction is a direction of data flow.
type Direction uint8

// The directions. Both stands for each of the two.
const (
	ToServer Direction = 1 << iota // from the client: requests
	ToClient                       // from the server: replies

	Both = ToServer | ToClient
)

// String returns the direction for messages.
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

// index is the index of a single direction in the arrays of a Proxy.
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

// faults are the faults of one direction.
type faults struct {
	delay time.Duration
	rate  int // bytes per second; 0: no limit
	black bool
}

// Delay delays every byte by d; 0 disables it. The order is kept and delays
// overlap: a delay costs latency, not throughput. It also applies to bytes in
// transit, from when they were sent.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	if d < 0 {
		panic("faultproxy: negative delay")
	}
	p.change(dir, func(f *faults) { f.delay = d })
}

// Throttle limits the bytes per second of each connection; 0 disables it. After an
// idle period, a twentieth of a second's worth, or at least one byte, passes at
// once.
func (p *Proxy) Throttle(dir Direction, bytesPerSecond int) {
	if bytesPerSecond < 0 {
		panic("faultproxy: negative rate")
	}
	p.change(dir, func(f *faults) { f.rate = bytesPerSecond })
}

// BlackHole silently blocks all data in a direction, including the end of
// connections. Connections stay open; new ones are accepted, but reach the server
// only when that direction is open again.
//
// Data is held, not dropped: [Proxy.Heal] delivers it late, as TCP does after a
// partition. For a partition that outlives the connections, call [Proxy.Reset]
// before Heal.
func (p *Proxy) BlackHole(dir Direction) {
	p.change(dir, func(f *faults) { f.black = true })
}

// Refuse resets new connections right after they are accepted: the client sees it
// when it connects or at its first read or write. Existing connections are not
// affected.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Heal ends all faults. Data that they held back is delivered at once; swallowed
// and reset data stays lost.
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

// notifyLocked wakes everything that waits under the previous faults.
func (p *Proxy) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns the faults of a single direction and a channel that is closed
// when any fault changes.
func (p *Proxy) current(dir Direction) (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[dir.index()], p.changed
}
