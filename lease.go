package pawl

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// A Lease is a held lock. It is held until Unlock, or until it is lost: when the
// store could not confirm it by its deadline, or says that it is gone. Loss is
// found without the network, by the clock; after it somebody else may hold the
// lock, so the work must stop when Context ends.
type Lease struct {
	term
	c     *Client
	name  string
	cl    *claim   // nil for a lease of several names
	parts []*Lease // of a lease of several names
	o     *options
	fence uint64
	pass  uint8
	mode  Mode
	since instant
	turn  int    // leases of the same hold that had ended when this one began
	outer *Lease // the next lease that the caller's context carries

	unlocked atomic.Bool
}

var _ driver.Pinner = (*Lease)(nil)

// newLease makes a lease of a held claim, unless the hold has ended already.
func newLease(ctx context.Context, k *lock, cl *claim, outer *Lease) *Lease {
	l := k.lease(ctx, cl, outer)
	s := cl.s
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !cl.HeldAt(now) {
		return nil
	}
	cl.addTermLocked(l, now)
	cl.o, cl.since, cl.untold = l.o, now, len(l.o.observers) > 0
	return l
}

// lease makes a lease that is not yet one of its claim's. Its context has the values
// of ctx.
func (k *lock) lease(ctx context.Context, cl *claim, outer *Lease) *Lease {
	l := &Lease{c: k.c, name: k.name, cl: cl, o: k.o, mode: k.mode(cl.Need), outer: outer}
	l.caller, l.whole, l.shared = ctx, k.whole, l.mode == Shared
	return l
}

// check ends the lease if its deadline has passed, and returns the time that it compared;
// 0 if it did not have to.
func (l *Lease) check() (now instant) {
	if l.ended() != nil {
		return 0
	}
	for _, p := range l.parts {
		p.check()
		if why := p.ended(); why != nil {
			l.end(why) // the goroutine that ended p may not have come to l yet
			return 0
		}
	}
	if l.cl == nil {
		return 0
	}
	if now = l.c.now(); now >= l.cl.Deadline() {
		s := l.cl.s
		s.mu.Lock()
		why := l.cl.whyLocked(now)
		s.mu.Unlock()
		s.lose(loss{cl: l.cl, why: why})
		l.end(why) // another goroutine may be in the middle of lose, and not have come to l yet
	}
	return now
}

// Context returns a context that ends when the lease does, with cause ErrLost,
// ErrReleased or ErrClosed. It carries the values of the context that Lock was
// called with, but not its deadline: that bounded the wait, not the work.
func (l *Lease) Context() context.Context { return (*leaseContext)(l) }

// Token returns the fencing token: unique, and larger than that of every holder
// before. Hand it to whatever the work changes and have it refuse a smaller one.
//
// A lease of several names has a token for each, see Part, and Token returns 0: the
// tokens of different names have no common order, so that no number would be right
// for all of them. It does not panic, because code that only logs a lease need not
// know how the lock was taken; and a check that gets the 0 by mistake fails closed,
// since every fence refuses 0.
func (l *Lease) Token() uint64 {
	l.check()
	return token(l.fence, l.pass)
}

// Fence returns the engine's own token, which the holders inside one process
// share while they pass the lock on; 0 for a lease of several names.
func (l *Lease) Fence() uint64 { return l.fence }

// Name returns the lock's name; for a lease of several names the first in order.
func (l *Lease) Name() string { return l.name }

// Names returns the names of all parts, in the order they were taken in.
func (l *Lease) Names() (names []string) {
	for _, p := range l.Parts() {
		names = append(names, p.name)
	}
	return names
}

// ID returns the claim's ID in the store; "" for a lease of several names.
func (l *Lease) ID() string {
	if l.cl == nil {
		return ""
	}
	return l.cl.ID
}

// Part returns the lease of one of the names, which has that name's token. It panics
// on a name that was not locked. A lease of one name is its own part.
func (l *Lease) Part(name string) *Lease {
	for _, p := range l.Parts() {
		if p.name == name {
			return p
		}
	}
	panic(fmt.Sprintf("pawl: Part(%q) of a lease that does not have this name", name))
}

// Parts returns the leases of the single names, in the order they were taken in;
// of a lease of one name, itself.
func (l *Lease) Parts() []*Lease {
	if len(l.parts) > 0 {
		return slices.Clone(l.parts)
	}
	return []*Lease{l}
}

// Grants returns Parts as package driver knows them, for sqllock.Guard.
func (l *Lease) Grants() []driver.Grant {
	parts := l.Parts()
	all := make([]driver.Grant, len(parts))
	for i, p := range parts {
		all[i] = p
	}
	return all
}

// Pin is for packages beside an engine, such as sqllock.Guard: see [driver.Pinner].
// Of a lease of several names each part is pinned by itself, see Grants; Pin of the
// whole is ErrInvalid.
func (l *Lease) Pin() (turn int, err error) {
	if l.cl == nil {
		return 0, fmt.Errorf("%w: Pin of a lease of several names", ErrInvalid)
	}
	if err := l.Err(); err != nil {
		return 0, err
	}
	cl, s := l.cl, l.cl.s
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Unlock ends the lease first and asks passOn, under this mutex, afterwards:
	// either it finds the pin, or we find the end.
	if why := l.ended(); why != nil {
		return 0, why
	}
	if cl.State() != claimset.Held {
		return 0, cl.whyEndedLocked()
	}
	cl.Pin()
	if cl.gate != nil {
		cl.gate.rest(now.Add(s.ttl))
	}
	return l.turn, nil
}

// Deadline returns until when the lock is ours if the store promises nothing more;
// renewal moves it.
func (l *Lease) Deadline() time.Time {
	if len(l.parts) == 0 {
		return l.c.wall(l.cl.Deadline())
	}
	first := l.parts[0].Deadline()
	for _, p := range l.parts[1:] {
		if d := p.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Err returns nil while the lock is held, and then why it is not.
func (l *Lease) Err() error {
	l.check()
	return l.ended()
}

// A leaseContext is a lease as a context. Err is computed when asked, so it is right
// even on a machine that just woke up and whose timers have not fired yet.
type leaseContext Lease

// ownerKey is the context key of the innermost lease.
type ownerKey struct{}

// Deadline returns none: that of a lease moves.
func (x *leaseContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the lease ends.
func (x *leaseContext) Done() <-chan struct{} { return x.context().Done() }

// Err reports whether the lease has ended, by the clock if need be.
func (x *leaseContext) Err() error {
	why := (*Lease)(x).Err()
	if why == nil {
		return nil
	}
	x.endContext(why) // the goroutine that ended the lease may not have come to this yet
	return x.context().Err()
}

// Value returns the lease itself to this package, and the caller's values to others.
func (x *leaseContext) Value(key any) any {
	if key == (ownerKey{}) {
		return (*Lease)(x)
	}
	return x.context().Value(key)
}

// A workContext is what Do runs its function with: it ends with the context that Do
// was called with, by that one's own error, and with the lease.
type workContext struct {
	context.Context // the caller's, ended also by cancel
	cancel          context.CancelCauseFunc
	lease           *Lease
}

// Err reports whether the lease or the caller's context has ended, by the clock if
// need be.
func (x *workContext) Err() error {
	if x.Context.Err() == nil && x.lease.Context().Err() != nil {
		x.cancel(context.Cause(x.lease.Context())) // AfterFunc does the same, maybe later
	}
	return x.Context.Err()
}

// Value returns the lease itself to this package, and the caller's values to others.
func (x *workContext) Value(key any) any {
	if key == (ownerKey{}) {
		return x.lease
	}
	return x.Context.Value(key)
}
