package pawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Lease is a held lock. It is held until Unlock, or until it is lost: when the
// store could not confirm it by its deadline, or says that it is gone. Loss is
// found without the network, by the clock; after it somebody else may hold the
// lock, so the work must stop when Context ends.
type Lease struct {
	c      *Client
	name   string
	cl     *claim   // nil for a lease of several names
	parts  []*Lease // of a lease of several names
	up     *Lease   // the lease of several names that this is a part of
	o      *options
	fence  uint64
	pass   uint8
	kind   lockKind
	since  instant
	turn   int    // leases of the same hold that had ended when this one began
	outer  *Lease // the next lease that the caller's context carries
	within *Lease // the lease of the same lock that this one is nested in
	nest   nest   // guarded by the session's mutex

	ctx      leaseContext
	over     atomic.Pointer[error] // why it ended
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
	if cl.state != held || now >= cl.deadline() {
		return nil
	}
	cl.attachLocked(l, now)
	return l
}

// lease makes a lease that is not yet one of its claim's.
func (k *lock) lease(ctx context.Context, cl *claim, outer *Lease) *Lease {
	l := &Lease{c: k.c, name: k.name, cl: cl, o: k.o, kind: k.kind(cl.Need), outer: outer, up: k.up}
	l.start(ctx)
	return l
}

func (cl *claim) attachLocked(l *Lease, now instant) {
	cl.o = l.o
	l.fence, l.pass, l.since, l.turn = cl.fence, cl.pass, now, cl.over
	cl.leases = append(cl.leases, l)
}

// start gives l its context: the values of ctx without its end.
func (l *Lease) start(ctx context.Context) { l.ctx.lease, l.ctx.caller = l, ctx }

// released is where every lease that was given back finds why it ended.
var released = ErrReleased

// end ends the lease's context, once, and reports whether it did.
func (l *Lease) end(why error) bool {
	at := &released
	if why != ErrReleased { //nolint:errorlint // another one is kept as it is
		other := why
		at = &other
	}
	if !l.over.CompareAndSwap(nil, at) {
		return false
	}
	l.ctx.end(why)
	if l.up != nil {
		l.up.end(why)
	}
	return true
}

// check ends the lease if its deadline has passed.
func (l *Lease) check() {
	if l.over.Load() != nil {
		return
	}
	for _, p := range l.parts {
		p.check()
		if why := p.over.Load(); why != nil {
			l.end(*why) // who ended p may not have come to us yet
			return
		}
	}
	if l.cl == nil {
		return
	}
	if now := l.c.now(); now >= l.cl.deadline() {
		s := l.cl.s
		s.mu.Lock()
		why := l.cl.whyLocked(now)
		s.mu.Unlock()
		s.lose(loss{cl: l.cl, why: why})
		l.end(why) // somebody else may be in the middle of lose, and not have come to us yet
	}
}

// Context returns a context that ends when the lease does, with cause ErrLost,
// ErrReleased or ErrClosed. It carries the values of the context that Lock was
// called with, but not its deadline: that bounded the wait, not the work.
func (l *Lease) Context() context.Context { return &l.ctx }

// Token returns the fencing token: unique, and larger than that of every holder
// before. Hand it to whatever the work changes and have it refuse a smaller one.
// For a lease of several names it is that of the first; see Parts.
func (l *Lease) Token() uint64 {
	l.check()
	if len(l.parts) > 0 {
		return l.parts[0].Token()
	}
	return l.fence<<8 | uint64(l.pass)
}

// Fence returns the engine's own token, which the holders inside one process
// share while they pass the lock on.
func (l *Lease) Fence() uint64 {
	if len(l.parts) > 0 {
		return l.parts[0].Fence()
	}
	return l.fence
}

// Name returns the lock's name; for a lease of several names the first.
func (l *Lease) Name() string { return l.name }

// ID returns the claim's ID in the store.
func (l *Lease) ID() string {
	if len(l.parts) > 0 {
		return l.parts[0].ID()
	}
	return l.cl.ID
}

// Parts returns the leases of the single names, in the order they were taken in;
// of a lease of one name, itself.
func (l *Lease) Parts() []*Lease {
	if len(l.parts) > 0 {
		return append([]*Lease(nil), l.parts...)
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

// Pin is for helpers beside an engine, such as sqllock.Guard: see [driver.Pinner].
// Of a lease of several names each is pinned by itself; see Grants.
func (l *Lease) Pin() (turn int, err error) {
	if len(l.parts) > 0 {
		return l.parts[0].Pin()
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
	if why := l.over.Load(); why != nil {
		return 0, *why
	}
	if cl.state != held {
		return 0, cl.whyEndedLocked()
	}
	cl.pinned = true
	if cl.gate != nil {
		cl.gate.rest(now.add(s.ttl))
	}
	return l.turn, nil
}

// Deadline returns until when the lock is ours if nothing more is heard from the
// store; renewal moves it.
func (l *Lease) Deadline() time.Time {
	if len(l.parts) == 0 {
		return l.c.wall(l.cl.deadline())
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
	if why := l.over.Load(); why != nil {
		return *why
	}
	return nil
}

// Unlock gives the lock back; the lease's context ends first. It needs no
// context: it is back by the deadline at the latest, and within 5 s. ErrLost
// says that the lock was not ours any more, ErrNotHeld that it was given back
// before, ErrUnknown that the store did not answer, or did only after a call that
// it left unanswered.
func (l *Lease) Unlock() error {
	if l.unlocked.Swap(true) {
		return l.c.fail("unlock", l.name, ErrNotHeld)
	}
	l.check()
	if !l.end(ErrReleased) {
		err := l.unlockParts()
		if why := *l.over.Load(); !errors.Is(why, ErrReleased) {
			err = l.c.fail("unlock", l.name, why) // the loss is the answer
		}
		return err
	}
	if l.cl == nil {
		return l.unlockParts()
	}
	if err := l.giveBack(); err != nil {
		return l.c.fail("unlock", l.name, err)
	}
	return nil
}

// unlockParts gives back the single names, all at once so that their bounds do
// not add up. One that was given back by itself before is no fault.
func (l *Lease) unlockParts() error {
	errs := make([]error, len(l.parts))
	var all sync.WaitGroup
	for i, p := range l.parts {
		all.Go(func() {
			if err := p.Unlock(); !errors.Is(err, ErrNotHeld) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return driver.Join(errs...)
}

// giveBack ends l's share of the claim, and with the last share the claim.
func (l *Lease) giveBack() error {
	cl, s := l.cl, l.cl.s
	s.mu.Lock()
	if cl.state != held {
		defer s.mu.Unlock()
		return cl.whyEndedLocked()
	}
	l.unnestLocked()
	for i, o := range cl.leases {
		if o == l {
			cl.leases = append(cl.leases[:i], cl.leases[i+1:]...)
			break
		}
	}
	cl.over++
	last := len(cl.leases) == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	if l.o.observer != nil {
		l.o.observer.Observe(Event{Kind: Released, Name: l.name, ID: cl.ID, Token: l.Token(), Took: l.c.now().sub(l.since)})
	}
	return cl.giveBack()
}
