package pawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// turnLength is how long a process may pass a lock on inside itself before it
// goes back to the line.
const turnLength = 20 * time.Millisecond

// A gateKey names what may share one place in line: exclusive claims on one name
// that ask the engine for exactly the same.
type gateKey struct {
	name         string
	limit        int
	ttl, maxHold time.Duration
	note         string
}

// A gate is the line inside the process. The goroutines that stand in it share
// one place in the engine's line: while a turn lasts, each Unlock passes the
// lock to the next of them without a round trip. When the turn is over and
// somebody still waits here, the first of them goes and stands in the engine's
// line, while the last holder may still be holding.
type gate struct {
	c    *Client
	key  gateKey
	refs int // guarded by c.mu; at 0 the gate is forgotten, or stays as the near one until another is

	resting atomic.Int64 // an instant, until when the lock is not passed on inside the process

	mu      sync.Mutex // guards the following; taken before a session's
	current *claim     // held by this process
	running bool       // one of ours is in the engine's line, or on its way there
	line    []*waiter
	armed   bool // a timer will call turnOver

	told  *driver.Standing // what the store said to the one of ours that runs; nil: nothing yet
	asked instant          // when that one set out
}

// A waiter is one goroutine in a gate's line.
type waiter struct {
	turn chan turn // buffered by one; sent to once, by whoever takes the waiter out of the line
}

// A turn is what a waiter gets: a held claim, a claim that stands in the
// engine's line, or, with neither, the word to go there itself.
type turn struct {
	cl     *claim
	passed bool // cl is held
	last   driver.Standing
}

// gate returns the gate for key, which the caller must give back with drop.
func (c *Client) gate(key gateKey) *gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.near
	if g == nil || g.key != key {
		g = c.gates[key]
	}
	if g == nil {
		g = &gate{c: c, key: key}
		if c.near == nil || c.near.refs == 0 {
			c.near = g
		} else {
			c.gates[key] = g
		}
	}
	g.refs++
	return g
}

func (g *gate) keep() {
	g.c.mu.Lock()
	g.refs++
	g.c.mu.Unlock()
}

func (g *gate) drop() {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.refs--
	if g.refs == 0 && g != g.c.near {
		delete(g.c.gates, g.key)
	}
}

// lock takes a claim through the gate; passed says that it came from inside.
func (g *gate) lock(ctx *call, q *quest) (passed bool, err error) {
	g.mu.Lock()
	if !g.running && len(g.line) == 0 && !g.turnOpenLocked() {
		g.running, g.told, g.asked = true, nil, g.c.now()
		g.mu.Unlock()
		return false, g.run(ctx, q, q.run)
	}
	w := &waiter{turn: make(chan turn, 1)}
	g.line = append(g.line, w)
	g.armLocked()
	g.mu.Unlock()
	q.began = g.c.now()
	q.waits()
	ends, closes := ctx.ends()
	select {
	case t := <-w.turn:
		return g.take(ctx, q, t)
	case <-ends:
	case <-closes:
	}
	q.last, q.known, q.began = g.withdraw(w, q.began)
	q.cl = nil
	return false, q.stopped(ctx)
}

// take uses the turn that a waiter got.
func (g *gate) take(ctx context.Context, q *quest, t turn) (passed bool, err error) {
	g.mu.Lock()
	q.began = max(q.began, g.asked)
	g.mu.Unlock()
	if t.cl == nil {
		return false, g.run(ctx, q, q.run)
	}
	q.cl, q.last, q.known = t.cl, t.last, t.cl.is(waiting)
	switch {
	case t.passed:
		return true, nil
	case t.cl.is(waiting):
		return false, g.run(ctx, q, q.resume)
	}
	return false, g.run(ctx, q, q.run)
}

// run goes to the engine for the gate. The quest's claim is nil afterwards if
// its place went to another waiter, who runs on.
func (g *gate) run(ctx context.Context, q *quest, how func(context.Context) error) error {
	q.cl.gate = g
	err := how(ctx)
	if q.cl == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	if err != nil {
		g.promoteLocked()
		return err
	}
	g.adoptLocked(q.cl)
	return nil
}

// adopt makes a claim that was tried for, and granted, the gate's own.
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
	if !cl.is(held) {
		g.promoteLocked()
		return
	}
	if g.current == nil {
		g.keep()
	}
	g.current = cl
	g.promoteLocked()
}

// learn keeps what the store said to the one of ours that waits in its line.
func (g *gate) learn(st driver.Standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = &st
}

// holder returns the entry of the claim that this process holds, if it does.
func (g *gate) holder() (driver.Entry, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holderLocked()
}

func (g *gate) holderLocked() (driver.Entry, bool) {
	if g.current == nil {
		return driver.Entry{}, false
	}
	return g.current.entry()
}

// release passes cl to the next waiter of this process, or reports that it must
// be given back. Others of this process then find their own way.
func (g *gate) release(cl *claim) (passed bool) {
	g.mu.Lock()
	if g.current != cl {
		g.mu.Unlock()
		return false
	}
	if len(g.line) > 0 && !g.running && cl.passOn() {
		w := g.popLocked()
		w.turn <- turn{cl: cl, passed: true}
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

// bequeath gives the quest's place in the engine's line to the next waiter.
func (g *gate) bequeath(q *quest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.line) == 0 {
		return false
	}
	if !q.cl.Queue && q.cl.s != nil {
		q.cl.s.retry(q.cl) // no place is kept: the heir's Enter is a new one
	}
	g.popLocked().turn <- turn{cl: q.cl, last: q.last}
	return true
}

// withdraw takes w, whose ctx has ended, out of the line. If its turn came in
// the same moment, the turn goes on to the next.
// It returns who holds the lock as far as this process knows.
func (g *gate) withdraw(w *waiter, began instant) (st driver.Standing, known bool, silent instant) {
	g.mu.Lock()
	silent = max(began, g.asked)
	st = driver.Standing{Ahead: -1}
	if e, ok := g.holderLocked(); ok {
		st.Holder, known = &e, true
	} else if g.running && g.told != nil {
		st.Holder, known = g.told.Holder, true
	}
	for i, o := range g.line {
		if o == w {
			g.line = append(g.line[:i], g.line[i+1:]...)
			st.Ahead = i + 1
			g.mu.Unlock()
			return st, known, silent
		}
	}
	g.mu.Unlock()
	switch t := <-w.turn; {
	case t.cl == nil:
		g.mu.Lock()
		g.running = false
		g.promoteLocked()
		g.mu.Unlock()
	case t.passed:
		if !g.release(t.cl) {
			t.cl.s.handBack(t.cl)
		}
	default:
		q := &quest{c: g.c, o: t.cl.o, cl: t.cl, last: t.last}
		if g.bequeath(q) {
			break
		}
		q.abandon()
		g.mu.Lock()
		g.running = false
		g.promoteLocked()
		g.mu.Unlock()
	}
	return st, known, silent
}

// promoteLocked sends the first waiter to the engine's line, unless one of ours
// is there already or the lock may still be passed on inside.
func (g *gate) promoteLocked() {
	switch {
	case g.running || len(g.line) == 0:
	case g.turnOpenLocked():
		g.armLocked()
	default:
		g.running, g.told, g.asked = true, nil, g.c.now()
		g.popLocked().turn <- turn{}
	}
}

func (g *gate) popLocked() *waiter {
	w := g.line[0]
	g.line[0] = nil
	g.line = g.line[1:]
	return w
}

func (g *gate) turnOpenLocked() bool {
	now := g.c.now()
	return g.current != nil && !g.rests(now) && now.sub(g.current.granted) < turnLength
}

// rest stops passing on for a while. A hold that guards a transaction is not
// passed on anyway; who guards once mostly does so again, and then waiters had
// better stand in the engine's line already. And a lease that was not passed on
// is guarded without a question to the store.
func (g *gate) rest(until instant) { g.resting.Store(int64(until)) }

func (g *gate) rests(now instant) bool { return now < instant(g.resting.Load()) }

// armLocked sees to it that the first waiter goes to the engine's line when the
// turn is over, however long the holder still holds.
func (g *gate) armLocked() {
	if g.armed || g.running || len(g.line) == 0 {
		return
	}
	g.armed = true
	left := time.Duration(0)
	if g.current != nil {
		left = turnLength - g.c.now().sub(g.current.granted)
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
