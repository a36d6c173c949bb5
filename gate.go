package pawl

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// turnLength is how long a process may pass a lock on inside itself before it
// goes back to the line.
const turnLength = 20 * time.Millisecond

// A gate is the line inside the process. The goroutines that wait in it share
// one place in the engine's line: while a turn lasts, each Unlock passes the
// lock to the next of them without a round trip. When the turn is over and
// goroutines still wait here, the first of them enters the engine's line, while
// the last holder may still be holding.
//
// Lock order of the whole package: gate.mu before gates.mu, gate.mu before session.mu.
// Under any other mutex no further one is taken.
type gate struct {
	c    *Client
	key  gateKey
	refs int // guarded by the registry's mutex

	resting atomic.Int64 // an instant, until when the lock is not passed on inside the process

	mu      sync.Mutex // guards the following
	current *claim     // held by this process
	running bool       // one of ours is in the engine's line, or on its way there
	line    []*waiter
	armed   bool             // a timer will call turnOver
	told    *driver.Standing // the store's last answer to the acquire that runs; nil: none yet
	asked   instant          // when that acquire set out
}

// A waiter is one goroutine in a gate's line.
type waiter struct {
	turn chan turn // buffered by one; sent to once, by the call that takes the waiter out of the line
}

// A turn is what a waiter gets: a held claim, a claim that stands in the
// engine's line, or, with neither, the order to go there itself.
type turn struct {
	cl     *claim
	passed bool // cl is held
	last   driver.Standing
}

// gates is the registry of a client's gates.
type gates struct {
	mu    sync.Mutex // guards the following
	byKey map[gateKey]*gate
	last  *gate // kept also when it is not in use, so that a lone caller need not touch the map; not in byKey
}

// gate returns the gate for key, which the caller gives back with drop.
func (c *Client) gate(key gateKey) *gate {
	all := &c.gates
	all.mu.Lock()
	defer all.mu.Unlock()
	g := all.last
	if g == nil || g.key != key {
		g = all.byKey[key]
	}
	if g == nil {
		g = &gate{c: c, key: key}
		if all.last == nil || all.last.refs == 0 {
			all.last = g
		} else {
			all.byKey[key] = g
		}
	}
	g.refs++
	return g
}

func (g *gate) keep() {
	all := &g.c.gates
	all.mu.Lock()
	g.refs++
	all.mu.Unlock()
}

func (g *gate) drop() {
	all := &g.c.gates
	all.mu.Lock()
	defer all.mu.Unlock()
	g.refs--
	if g.refs == 0 && g != all.last {
		delete(all.byKey, g.key)
	}
}

// join returns the caller's place in the gate's line, or nil: then the caller goes to
// the engine for the gate, and calls finish after it.
func (g *gate) join() *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.running && len(g.line) == 0 && !g.turnOpenLocked() {
		g.startLocked()
		return nil
	}
	w := &waiter{turn: make(chan turn, 1)}
	g.line = append(g.line, w)
	g.armLocked()
	return w
}

// askedSince returns when the acquire that runs for the gate set out, at least since.
func (g *gate) askedSince(since instant) instant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(since, g.asked)
}

// finish ends an acquire that ran for the gate, with the claim that it got, if any.
func (g *gate) finish(cl *claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	if cl == nil {
		g.promoteLocked()
		return
	}
	g.adoptLocked(cl)
}

// adopt makes a claim that was granted to a caller outside the line the gate's own.
func (g *gate) adopt(cl *claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adoptLocked(cl)
}

// adoptLocked makes a granted claim the gate's current one, unless it was lost
// already: then vacate has come and gone. One that is lost from here on is
// vacated after this. The reference of a current claim that was lost, and whose
// vacate is still on its way, goes over to its successor.
func (g *gate) adoptLocked(cl *claim) {
	if cl.is(claimset.Held) {
		if g.current == nil {
			g.keep()
		}
		g.current = cl
	}
	g.promoteLocked()
}

// learn keeps the store's answer to the acquire that waits in its line.
func (g *gate) learn(st driver.Standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = &st
}

// holder returns the entry of the claim that this process holds, if it does.
func (g *gate) holder() (driver.Entry, bool) {
	g.mu.Lock()
	cl := g.current
	g.mu.Unlock()
	if cl == nil {
		return driver.Entry{}, false
	}
	return cl.entry()
}

// release passes cl to the next waiter of this process, or reports that it must
// be given back to the store.
func (g *gate) release(cl *claim) (passed bool) {
	g.mu.Lock()
	switch {
	case g.current != cl:
		g.mu.Unlock()
		return false
	case len(g.line) > 0 && !g.running && g.passOn(cl):
		g.popLocked().turn <- turn{cl: cl, passed: true}
		g.mu.Unlock()
		return true
	}
	g.current = nil
	g.promoteLocked()
	g.mu.Unlock()
	g.drop()
	return false
}

// vacate forgets a claim that this process no longer holds.
func (g *gate) vacate(cl *claim) {
	g.mu.Lock()
	was := g.current == cl
	if was {
		g.current = nil
		g.promoteLocked()
	}
	g.mu.Unlock()
	if was {
		g.drop()
	}
}

// bequeath gives a place in the engine's line to the next waiter, if there is one.
func (g *gate) bequeath(cl *claim, last driver.Standing) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.line) == 0 {
		return false
	}
	g.popLocked().turn <- turn{cl: cl, last: last}
	return true
}

// withdraw takes a waiter out of the line, and reports false if its turn has come in
// the same moment. It returns what this process knows of the holder.
func (g *gate) withdraw(w *waiter) (st driver.Standing, known, withdrawn bool) {
	e, held := g.holder()
	g.mu.Lock()
	defer g.mu.Unlock()
	st = driver.Standing{Ahead: -1}
	if held {
		st.Holder, known = &e, true
	} else if g.running && g.told != nil {
		st.Holder, known = g.told.Holder, true
	}
	for i, o := range g.line {
		if o == w {
			g.line = append(g.line[:i], g.line[i+1:]...)
			st.Ahead = i + 1
			return st, known, true
		}
	}
	return st, known, false
}

// promoteLocked sends the first waiter to the engine's line, unless one of ours
// is there already or the lock may still be passed on inside the process.
func (g *gate) promoteLocked() {
	switch {
	case g.running || len(g.line) == 0:
	case g.turnOpenLocked():
		g.armLocked()
	default:
		g.startLocked()
		g.popLocked().turn <- turn{}
	}
}

func (g *gate) startLocked() { g.running, g.told, g.asked = true, nil, g.c.now() }

func (g *gate) popLocked() *waiter {
	w := g.line[0]
	g.line[0] = nil
	g.line = g.line[1:]
	return w
}

func (g *gate) turnOpenLocked() bool {
	now := g.c.now()
	return g.current != nil && !g.rests(now) && now.Sub(g.current.Granted()) < turnLength
}

// rest stops passing on for a while. A hold that guards a transaction is not passed
// on, and a process that guards once mostly does so again: its waiters had better
// stand in the engine's line already. Besides, a lease that was not passed on is
// guarded without asking the store.
func (g *gate) rest(until instant) { g.resting.Store(int64(until)) }

// passOn is claim.passOn, while the gate does not rest.
func (g *gate) passOn(cl *claim) bool {
	now := g.c.now()
	return !g.rests(now) && cl.passOn(now)
}

func (g *gate) rests(now instant) bool { return now < instant(g.resting.Load()) }

// armLocked sends the first waiter to the engine's line when the turn is over,
// however long the holder still holds.
func (g *gate) armLocked() {
	if g.armed || g.running || len(g.line) == 0 {
		return
	}
	g.armed = true
	left := time.Duration(0)
	if g.current != nil {
		left = turnLength - g.c.now().Sub(g.current.Granted())
	}
	time.AfterFunc(left, g.turnOver) // short, and it touches only the gate: nobody need wait for it
}

func (g *gate) turnOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	g.promoteLocked()
	g.armLocked()
}
