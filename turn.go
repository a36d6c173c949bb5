package pawl

import (
	"context"

	"github.com/pawl-go/pawl/internal/claimset"
)

// claim obtains a held claim, as a.cl, through the gate where there is one.
func (k *lock) claim(ctx *callContext, a *acquisition, need int) (passed bool, err error) {
	if need < k.limit || k.o.fair || k.o.fixed {
		a.cl = k.newClaim(need, a.try)
		return false, a.run(ctx)
	}
	g := k.c.gate(k.gateKey())
	defer g.drop()
	if !a.try {
		return k.throughGate(ctx, a, g)
	}
	if e, ok := g.holder(); ok {
		return false, &HeldError{Holder: &e, Ahead: 1, Err: ErrHeld}
	}
	a.cl = k.newClaim(need, a.try)
	a.cl.gate = g // before the grant: it may be lost at once
	if err := a.run(ctx); err != nil {
		return false, err
	}
	g.adopt(a.cl)
	return false, nil
}

// throughGate acquires through the gate; passed says that the hold came from inside
// the process. It makes a claim only where one is needed: a hold that is passed on
// brings its own.
func (k *lock) throughGate(ctx *callContext, a *acquisition, g *gate) (passed bool, err error) {
	w := g.join()
	if w == nil {
		a.cl = k.newClaim(k.limit, false)
		return false, a.runFor(ctx, g, a.run)
	}
	a.began = a.c.now()
	if len(k.o.observers) > 0 { // it is told the claim's ID
		a.cl = k.newClaim(k.limit, false)
	}
	a.tellWaiting()
	ends, closes := ctx.ends()
	select {
	case t := <-w.turn:
		return k.takeTurn(ctx, a, g, t)
	case <-ends:
	case <-closes:
	}
	var withdrawn bool
	a.began = g.askedSince(a.began)
	if a.last, a.known, withdrawn = g.withdraw(w); !withdrawn {
		a.declineTurn(g, <-w.turn)
	}
	a.cl = nil
	return false, a.stopped(ctx)
}

// takeTurn uses the turn that a waiter got.
func (k *lock) takeTurn(ctx context.Context, a *acquisition, g *gate, t turn) (passed bool, err error) {
	a.began = g.askedSince(a.began)
	if t.cl == nil {
		if a.cl == nil {
			a.cl = k.newClaim(k.limit, false)
		}
		return false, a.runFor(ctx, g, a.run)
	}
	inLine := t.cl.is(claimset.Waiting)
	a.cl, a.last, a.known = t.cl, t.last, inLine || t.last.Holder != nil // also if its session has ended since
	switch {
	case t.passed:
		return true, nil
	case inLine:
		return false, a.runFor(ctx, g, a.resume)
	}
	return false, a.runFor(ctx, g, a.run)
}

// declineTurn passes a turn on that came in the moment in which ctx ended.
func (a *acquisition) declineTurn(g *gate, t turn) {
	switch {
	case t.cl == nil:
		g.finish(nil)
	case t.passed:
		if !g.release(t.cl) {
			t.cl.s.handBack(t.cl)
		}
	default:
		heir := &acquisition{c: a.c, o: t.cl.o, cl: t.cl, last: t.last}
		if !heir.bequeath() {
			heir.abandon()
			g.finish(nil)
		}
	}
}

// runFor goes to the engine for the gate. The claim is nil afterwards if its place
// went to another waiter, which runs on.
func (a *acquisition) runFor(ctx context.Context, g *gate, how func(context.Context) error) error {
	a.cl.gate = g
	err := how(ctx)
	switch {
	case a.cl == nil:
	case err != nil:
		g.finish(nil)
	default:
		g.finish(a.cl)
	}
	return err
}
