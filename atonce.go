package pawl

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// errInOrder says that names cannot be had in one step here: they must be taken
// one after the other.
var errInOrder = errors.New("not in one step")

// A bundle is the claims of several names that enter their lines in one step.
type bundle struct {
	s   *session
	m   driver.Multi
	cls []*claim
}

// takeAtOnce takes all names in one atomic step, if they are free now. It does not
// stand in line with them. Claims that enter several lines in one step cannot wait
// for each other, but for one who takes the names in order: it holds a; they enter
// the lines of a and b, and hold b; it enters the line of b. Each now waits for the
// other. So nobody waits who holds what comes later in the order.
//
// ErrHeld comes with the name that was not free. After any error nothing is held.
func (c *Client) takeAtOnce(ctx context.Context, whole *Lease, names []string, try bool) (parts []*Lease, at string, err error) {
	locks := make([]*lock, len(names))
	for i, name := range names {
		k := c.part(name, whole)
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
	start := c.now()
	b := &bundle{}
	for _, k := range locks {
		cl := k.newClaim(1, true)
		cl.identify()
		if !k.o.fair {
			cl.gate = c.gate(k.gateKey())
			defer cl.gate.drop()
		}
		b.cls = append(b.cls, cl)
	}
	if i, err := b.take(wait, c); err != nil {
		return nil, names[i], err
	}
	if parts = b.leases(ctx, locks, start); len(parts) == len(names) && whole.Err() == nil {
		return parts, "", nil
	}
	for _, l := range parts { // one was lost already, and nobody was told of it
		_ = l.Unlock()
	}
	return nil, names[0], errInOrder
}

// leases makes leases of the granted claims, but for those that are lost already.
func (b *bundle) leases(ctx context.Context, locks []*lock, start instant) (parts []*Lease) {
	_, chain := locks[0].owner(ctx)
	for i, cl := range b.cls {
		if cl.gate != nil {
			cl.gate.adopt(cl)
		}
		l := newLease(ctx, locks[i], cl, chain)
		if l == nil {
			cl.s.lose(loss{cl: cl, why: errLate})
			continue
		}
		l.announce(false, start)
		parts, chain = append(parts, l), l
	}
	return parts
}

// take seats the claims in a session and has them granted: all, or none and the
// index of one that was in the way.
func (b *bundle) take(ctx context.Context, c *Client) (at int, err error) {
	for i, cl := range b.cls { // held in this process: the store need not be asked
		if cl.gate == nil {
			continue
		}
		if e, ok := cl.gate.holder(); ok {
			return i, &HeldError{Holder: &e, Ahead: 1, Err: ErrHeld}
		}
	}
	if err := b.seat(ctx, c); err != nil {
		return 0, err
	}
	out, err := b.enter(ctx)
	if err == nil {
		if at, err = b.verdict(out); err == nil && b.granted(out) {
			return 0, nil
		} else if err == nil {
			err = errInOrder
		}
	}
	if errors.Is(err, driver.ErrGone) {
		b.s.die(errDead)
		err = errInOrder
	} else if refused(err) {
		err = errInOrder // one of them, or that so many are asked for: each says so for itself
	}
	for _, cl := range b.cls {
		(&quest{cl: cl}).abandon()
	}
	return at, err
}

// seat gives all claims one session, if it is one that can enter them at once.
func (b *bundle) seat(ctx context.Context, c *Client) (err error) {
	call := newCall(ctx, time.Now().Add(tryLimit(b.cls[0].o.ttl)))
	defer call.end()
	if b.s, err = c.session(call, b.cls[0]); err != nil {
		return errInOrder // who takes them in order knows what to do about it
	}
	seated := 1
	for seated < len(b.cls) && b.s.join(b.cls[seated]) {
		seated++
	}
	var multi bool
	if b.m, multi = b.s.d.(driver.Multi); multi && seated == len(b.cls) {
		return nil
	}
	for _, cl := range b.cls[:seated] {
		b.s.part(cl)
	}
	return errInOrder
}

// enter makes the step, and again where no answer came: it is the same one.
func (b *bundle) enter(ctx context.Context) (out []driver.Standing, err error) {
	for fails := 0; ; fails++ {
		limit := tryLimit(b.cls[0].o.ttl)
		out, err = b.s.enterAll(ctx, b.m, b.cls, limit)
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUnreachable) {
			err = noAnswer(limit)
		}
		if !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil || fails == maxRepeats {
			return out, err
		}
		pause := time.NewTimer(time.Millisecond<<fails + rand.N(time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// enterAll asks the engine once.
func (s *session) enterAll(ctx context.Context, m driver.Multi, cls []*claim, limit time.Duration) ([]driver.Standing, error) {
	sent, at := s.c.both()
	asked := make([]driver.Claim, len(cls))
	for i, cl := range cls {
		asked[i], cl.sent = cl.Claim, sent
	}
	call := newCall(ctx, at.Add(limit))
	out, err := m.EnterAll(call, asked)
	call.end()
	if err != nil {
		for _, cl := range cls {
			if !refused(err) {
				cl.unanswered = sent
			}
		}
		return nil, err
	}
	s.c.contacted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, cl := range cls {
		if out[i].Held {
			s.answeredLocked(cl, out[i])
		}
	}
	return out, nil
}

// verdict finds the claim that was in the way of the others.
func (b *bundle) verdict(out []driver.Standing) (at int, err error) {
	if !slices.ContainsFunc(out, func(st driver.Standing) bool { return !st.Held }) {
		return 0, nil
	}
	// Those that would have been held are not held either, nor those that were not
	// even looked at.
	for i, st := range out {
		if !st.Held && (st.Ahead > 0 || st.Holder != nil && st.Holder.ID != b.cls[i].ID) {
			at = i
			break
		}
	}
	return at, &HeldError{Holder: out[at].Holder, Ahead: out[at].Ahead, Err: ErrHeld}
}

// granted takes the grants, or gives them all back because they came too late.
func (b *bundle) granted(out []driver.Standing) bool {
	for i, cl := range b.cls {
		if b.s.grant(cl, out[i]) {
			continue
		}
		for _, cl := range b.cls[:i] {
			b.s.handBack(cl)
		}
		for _, cl := range b.cls[i:] {
			b.s.depart(cl, b.s.c.now())
		}
		return false
	}
	return true
}
