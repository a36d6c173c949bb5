package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// closeCases end sessions and engines.
var closeCases = []lawCase{
	{name: "closing a session ends its claims and no others", law: 14, run: closeSession,
		why: "Two sessions hold and wait; one is closed: its hold is free and its place in line is gone, the other's claims stay."},
	{name: "closing a session with expired claims in line harms nobody", law: 14, needs: needs{queue: true}, run: closeAmongDead,
		why: "A session is closed while an expired claim is ahead of its own: only these two go."},
	{name: "a closed session refuses to enter", law: 14, run: enterClosed,
		why: "ErrGone tells the core to open a new session; a claim in a closed one would never be beaten."},
	{name: "closing an old session leaves the claim in the new one", law: 14, run: closeOld,
		why: "The core gives a session up and enters its claim with the next Try in a new one; only then the old session is closed."},
	{name: "closing a session twice is once", law: 14, run: closeTwice,
		why: "The reply to Close was lost; the second must not end what began since."},
	{name: "closing an engine ends no other engine's claims", law: 14, run: closeEngine,
		why: "Two processes use one store; one ends."},
	{name: "there is no goroutine per held claim", law: 9, run: noGoroutinePerClaim,
		why: "A hundred held claims cost a hundred places in a store, not a hundred goroutines."},
}

func closeSession(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), withName(f.claim(), f.name+"/b")
	a.mustHold(ca)
	b.mustHold(cb)
	if f.can.Queue {
		a.mustWait(withName(f.claim(), cb.Name))
		b.mustWait(f.claim())
	}
	a.close()
	if f.can.Queue {
		got := f.line()
		if len(got) != 2 || got[0].Session != b.id || got[1].Session != b.id {
			f.Fatalf("a session was closed; listed are\n%s", showEntries(got))
		}
	} else {
		b.mustHold(f.claim())
	}
	if out := b.mustBeat(cb); out[0].Gone {
		f.Errorf("a claim went with another session")
	}
}

func closeAmongDead(f *fixture) {
	dead, a, b := f.openTTL(max(f.ttl, 2*time.Second)), f.open(), f.open() // long enough for all three to be in line before it expires
	c1, c2, c3, c4 := f.claim(), f.claim(), f.claim(), f.claim()
	dead.mustHold(c1)
	a.mustWait(c2)
	last := b.mustWait(c3)
	a.mustWait(c4)
	dead.crash()
	time.Sleep(dead.TTL() + dead.TTL()/10) // no call reaches the engine meanwhile, so it may not have noticed the expiry
	a.close()
	if _, err := b.awaitHeld(f.ctx, c3, last); err != nil {
		f.Fatalf("Await after the session ahead was closed: %v", err)
	}
	f.expectLine("one died, one was closed", c3)
}

func enterClosed(f *fixture) {
	a, b := f.open(), f.open()
	c := f.claim()
	a.mustHold(c)
	a.close()
	if st, err := a.Enter(f.ctx, f.claim()); !errors.Is(err, driver.ErrGone) {
		f.Errorf("Enter in a closed session: %+v, %v, not ErrGone", st, err)
	}
	if err := a.Beat(f.ctx, []driver.Claim{c}, make([]driver.Standing, 1)); !errors.Is(err, driver.ErrGone) {
		f.Errorf("Beat of a closed session: %v, not ErrGone", err)
	}
	f.expectLine("the session was closed")
	b.mustHold(f.claim())
}

func closeOld(f *fixture) {
	old := f.open()
	c := f.claim()
	old.mustHold(c)
	fresh := f.open()
	c = nextTry(c)
	held := fresh.mustHold(c)
	old.close()
	f.expectLine("the claim moved to a new session", c)
	if out := fresh.mustBeat(c); out[0].Gone {
		f.Errorf("the claim went with the old session")
	}
	if again := fresh.mustHold(c); again.Token != held.Token {
		f.Errorf("token %d became %d when the old session was closed", held.Token, again.Token)
	}
}

func closeTwice(f *fixture) {
	a, b := f.open(), f.open()
	a.mustHold(f.claim())
	a.close()
	c := f.claim()
	b.mustHold(c)
	if err := a.Close(f.ctx); err != nil && !errors.Is(err, driver.ErrGone) {
		f.Errorf("closing a session twice: %v", err)
	}
	f.expectLine("A was closed twice", c)
}

// closeEngine is only meaningful with a peer. Without one it just shows that an
// engine with live claims can be closed.
func closeEngine(f *fixture) {
	if f.peer == nil {
		f.open().mustHold(f.claim())
		return
	}
	third := f.h.Peer(f.T, f.store)
	if err := third.Close(); err != nil { // an engine without claims
		f.Fatalf("closing an engine: %v", err)
	}
	a := f.open()
	c := f.claim()
	held := a.mustHold(c)
	third = f.h.Peer(f.T, f.store)
	p, err := third.Open(f.ctx, driver.SessionOptions{ID: newID(), TTL: f.ttl})
	if err != nil {
		f.Fatalf("Open: %v", err)
	}
	if st, err := p.Enter(f.ctx, withoutQueue(f.claim())); err != nil || st.Held {
		f.Fatalf("Enter from another engine: %+v, %v", st, err)
	}
	if err := errors.Join(p.Close(f.ctx), third.Close()); err != nil {
		f.Fatalf("closing an engine: %v", err)
	}
	if out := a.mustBeat(c); out[0].Gone {
		f.Errorf("a claim went with another engine")
	}
	if again := a.mustHold(c); again.Token != held.Token {
		f.Errorf("token %d became %d when another engine was closed", held.Token, again.Token)
	}
}

// noGoroutinePerClaim tolerates ten extra goroutines: a pool may grow, but not with
// the number of claims.
func noGoroutinePerClaim(f *fixture) {
	a := f.open()
	for i := range 10 {
		a.mustHold(withName(f.claim(), fmt.Sprintf("%s/few/%d", f.name, i)))
	}
	_, before := goroutines(f.label, f.h.Stays)
	for i := range 100 {
		a.mustHold(withName(f.claim(), fmt.Sprintf("%s/many/%d", f.name, i)))
	}
	stacks, after := goroutines(f.label, f.h.Stays)
	for began := time.Now(); after > before+10 && time.Since(began) < ourGrace; time.Sleep(maxCheckPause) {
		stacks, after = goroutines(f.label, f.h.Stays) // an abandoned call may still be running
	}
	if after > before+10 {
		f.Errorf("%d goroutines with 10 claims held, %d with 110:\n%s", before, after, stacks)
	}
}
