package pawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
)

// errInOrder says that names cannot be taken in one step here: they must be taken
// one after the other.
var errInOrder = errors.New("not in one step")

// A multiAcquire is the claims of several names that enter their lines in one step.
type multiAcquire struct {
	s   *session
	m   driver.Multi
	cls []*claim
}

// takeAtOnce takes all names in one atomic step, if they are free now. It does not
// stand in line with them. Claims that enter several lines in one step cannot wait
// for each other, but for a caller that takes the names in order: it holds a; they
// enter the lines of a and b, and hold b; it enters the line of b. Each now waits for
// the other. So no caller waits that holds a name later in the order.
//
// ErrHeld comes with the name that was not free. After any error nothing is held.
func (c *Client) takeAtOnce(ctx context.Context, whole *Lease, names []string, try bool) (parts []*Lease, at string, err error) {
	locks := make([]*lock, len(names))
	for i, name := range names {
		k := c.partLock(name, whole)
		own, _ := k.owner(ctx) // it nests, or is refused
		if locks[i] = k; own != nil || k.o.fixed || k.check(1) != nil {
			return nil, name, errInOrder
		}
	}
	if len(names) == 1 || ctx.Err() != nil || !c.begin() {
		return nil, names[0], errInOrder
	}
	defer c.calls.Done()
	wait := locks[0].bound(ctx, try)
	defer wait.end()
	r := locks[0].newReport(ctx)
	defer locks[0].o.observers.settle()
	a := &multiAcquire{}
	for _, k := range locks {
		cl := k.newClaim(1, true)
		cl.identify()
		if !k.o.fair {
			cl.gate = c.gate(k.gateKey())
			defer cl.gate.drop()
		}
		a.cls = append(a.cls, cl)
	}
	if i, err := a.take(wait, c); err != nil {
		if errors.Is(context.Cause(wait), ErrClosed) {
			err = ErrClosed // the call itself says only that its context ended
		}
		if try && !errors.Is(err, errInOrder) {
			locks[i].tellRefused(r, 1, err)
		}
		return nil, names[i], err
	}
	if parts = a.leases(ctx, locks, r); len(parts) == len(names) && whole.Err() == nil {
		return parts, "", nil
	}
	for _, l := range parts { // one was lost already, and nobody was told of it
		_ = l.Unlock()
	}
	return nil, names[0], errInOrder
}

// leases makes leases of the granted claims, but for those that are lost already.
func (a *multiAcquire) leases(ctx context.Context, locks []*lock, r report) (parts []*Lease) {
	_, chain := locks[0].owner(ctx)
	for i, cl := range a.cls {
		if cl.gate != nil {
			cl.gate.adopt(cl)
		}
		l := newLease(ctx, locks[i], cl, chain)
		if l == nil {
			cl.s.lose(loss{cl: cl, why: errLate})
			continue
		}
		l.tellHeld(r, false)
		parts, chain = append(parts, l), l
	}
	return parts
}

// take attaches the claims to a session and has them granted: all, or none and the
// index of one that was not free.
func (a *multiAcquire) take(ctx context.Context, c *Client) (at int, err error) {
	for i, cl := range a.cls { // held in this process: the store need not be asked
		if cl.gate == nil {
			continue
		}
		if e, ok := cl.gate.holder(); ok {
			return i, &HeldError{Holder: &e, Ahead: 1, Err: ErrHeld}
		}
	}
	if err := a.attach(ctx, c); err != nil {
		return 0, err
	}
	out, err := a.enter(ctx)
	if err == nil {
		if at, err = a.heldBy(out); err == nil && a.granted(out) {
			return 0, nil
		} else if err == nil {
			err = errInOrder
		}
	}
	if errors.Is(err, driver.ErrGone) {
		a.s.die(errDead)
		err = errInOrder
	} else if refused(err) {
		err = errInOrder // one of them, or their number: a single Enter says which
	}
	for _, cl := range a.cls {
		a.s.abandon(cl)
	}
	return at, err
}

// attach gives all claims one session, if it is one that can enter them at once.
func (a *multiAcquire) attach(ctx context.Context, c *Client) (err error) {
	call := callUntil(ctx, time.Now().Add(tryLimit(a.cls[0].o.ttl)))
	defer call.end()
	if err = c.attach(call, a.cls[0]); err != nil {
		return errInOrder // the loop for one name knows what to do about it
	}
	a.s = a.cls[0].s
	joined := 1
	for joined < len(a.cls) && a.s.join(a.cls[joined]) {
		joined++
	}
	var multi bool
	if a.m, multi = a.s.d.(driver.Multi); multi && joined == len(a.cls) {
		return nil
	}
	for _, cl := range a.cls[:joined] {
		a.s.end(cl)
	}
	return errInOrder
}

// enter makes the step, and again where no answer came: it is the same one.
func (a *multiAcquire) enter(ctx context.Context) (out []driver.Standing, err error) {
	for fails := 0; ; fails++ {
		limit := tryLimit(a.cls[0].o.ttl)
		out, err = a.s.enterAll(ctx, a.m, a.cls, limit)
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUnreachable) {
			err = noAnswer(limit)
		}
		if !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil || fails == maxRepeats {
			return out, err
		}
		pause(ctx, time.Millisecond<<fails+jitter.N(time.Millisecond))
	}
}

// heldBy finds the claim that was not free; nil says that all are held.
func (a *multiAcquire) heldBy(out []driver.Standing) (at int, err error) {
	if !slices.ContainsFunc(out, func(st driver.Standing) bool { return !st.Held }) {
		return 0, nil
	}
	// Claims that would have been held are not held either, nor are those that the
	// engine did not look at.
	for i, st := range out {
		if !st.Held && (st.Ahead > 0 || st.Holder != nil && st.Holder.ID != a.cls[i].ID) {
			at = i
			break
		}
	}
	return at, &HeldError{Holder: out[at].Holder, Ahead: out[at].Ahead, Err: ErrHeld}
}

// granted takes the grants, or gives them all back because they came too late.
func (a *multiAcquire) granted(out []driver.Standing) bool {
	for i, cl := range a.cls {
		if a.s.grant(cl, out[i]) {
			continue
		}
		for _, cl := range a.cls[:i] {
			a.s.handBack(cl)
		}
		for _, cl := range a.cls[i:] {
			a.s.depart(cl, a.s.c.now())
		}
		return false
	}
	return true
}
