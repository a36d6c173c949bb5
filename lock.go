package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A lockKind says how claims of a lock stand beside each other.
type lockKind uint8

const (
	exclusive lockKind = iota
	shared
	counted
)

// A lock is a name with a limit and options: what Mutex, RWMutex and Semaphore
// have in common. Nothing happens until it is asked for.
type lock struct {
	c         *Client
	name      string
	limit     int
	semaphore bool
	o         *options
	up        *Lease // the lease of several names this is taken for
}

func (k *lock) kind(need int) lockKind {
	switch {
	case k.semaphore:
		return counted
	case need >= k.limit:
		return exclusive
	}
	return shared
}

// A Mutex is a lock that one holder has at a time. It is a name; nothing happens
// until it is locked. It is safe to share.
type Mutex struct{ k lock }

// Mutex returns the mutex called name.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	return &Mutex{lock{c: c, name: name, limit: 1, o: c.options(opts)}}
}

// Lock waits for the lock. ctx bounds the wait, never the hold.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.k.take(ctx, "lock", 1, false) }

// TryLock takes the lock now or returns ErrHeld; *HeldError says who has it.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.k.take(ctx, "lock", 1, true) }

// Do runs fn while it holds the lock. fn's context ends with ctx or when the
// lock is lost; ErrLost is then joined to fn's error.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	if fn == nil {
		panic("pawl: Do without a function")
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// An RWMutex is a lock that many readers or one writer have at a time. First
// come, first served: a writer that waits keeps later readers out.
type RWMutex struct{ k lock }

// RWMutex returns the read-write lock called name.
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	return &RWMutex{lock{c: c, name: name, limit: driver.All, o: c.options(opts)}}
}

// Lock waits for the lock for writing.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return m.k.take(ctx, "lock", driver.All, false)
}

// TryLock takes the lock for writing now or returns ErrHeld.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.k.take(ctx, "lock", driver.All, true)
}

// RLock waits for the lock for reading.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.k.take(ctx, "rlock", 1, false) }

// TryRLock takes the lock for reading now or returns ErrHeld.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.k.take(ctx, "rlock", 1, true)
}

// A Semaphore is a lock with a number of permits. All who use a name must agree
// on the number.
type Semaphore struct{ k lock }

// Semaphore returns the semaphore called name that has limit permits.
func (c *Client) Semaphore(name string, limit int, opts ...Option) *Semaphore {
	return &Semaphore{lock{c: c, name: name, limit: limit, semaphore: true, o: c.options(opts)}}
}

// Acquire waits for n permits at once. First come, first served: one who waits
// for many keeps later ones out. More than the semaphore has, or none, is ErrInvalid;
// a name that is in use with another number of permits is ErrLimit.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.k.take(ctx, "acquire", n, false)
}

// TryAcquire takes n permits now or returns ErrHeld.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.k.take(ctx, "acquire", n, true)
}

// check refuses what can be refused without asking the store.
func (k *lock) check(need int) error {
	if err := checkName(k.name); err != nil {
		return err
	}
	if k.o.err != nil {
		return k.o.err
	}
	f := k.c.features
	switch {
	case k.semaphore && (k.limit < 1 || k.limit >= driver.All):
		return fmt.Errorf("%w: semaphore of %d permits: 1 to %d", ErrInvalid, k.limit, driver.All-1)
	case need < 1:
		return fmt.Errorf("%w: %d permits asked for: at least 1", ErrInvalid, need)
	case need > k.limit:
		return worded{driver.Join(ErrInvalid, ErrLimit),
			fmt.Sprintf("%v: %d permits asked of a semaphore that has only %d", ErrInvalid, need, k.limit)}
	case k.semaphore && k.limit > 1 && !f.Count:
		return fmt.Errorf("%w: a semaphore of more than one permit", ErrUnsupported)
	case k.limit == driver.All && need < k.limit && !f.Shared:
		return fmt.Errorf("%w: a lock for reading", ErrUnsupported)
	}
	return nil
}

// take acquires need units of the lock.
func (k *lock) take(ctx context.Context, op string, need int, try bool) (*Lease, error) {
	if ctx == nil {
		panic("pawl: nil context")
	}
	l, err := k.acquire(ctx, nil, need, try)
	if err != nil {
		return nil, k.c.fail(op, k.name, err)
	}
	return l, nil
}

// acquire is take before its error is wrapped. chain is what the lease's context
// carries if it is not what ctx carries.
func (k *lock) acquire(ctx context.Context, chain *Lease, need int, try bool) (*Lease, error) {
	if err := k.check(need); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !k.c.begin() {
		return nil, ErrClosed
	}
	defer k.c.calls.Done()
	if k.o.limited && k.o.wait == 0 {
		try = true
	}
	wait := k.bound(ctx, try)
	defer wait.end()
	own, carried := k.owner(ctx)
	if chain == nil {
		chain = carried
	}
	for ; own != nil && !k.semaphore; own, _ = k.owner(ctx) {
		l, err := k.again(wait, own, chain, need, try)
		if errors.Is(err, errNoOwner) {
			continue
		}
		if err != nil && errors.Is(context.Cause(wait), errWaited) {
			err = own.inTheWay(ErrHeld)
		}
		return l, err
	}
	var start instant
	if k.o.observer != nil {
		start = k.c.now()
	}
	for {
		cl, passed, err := k.claim(wait, need, try)
		if err != nil {
			return nil, err
		}
		if l := newLease(ctx, k, cl, chain); l != nil {
			l.announce(passed, start)
			return l, nil
		}
		// Lost between the grant and here, so that nobody was told of it: once more.
		cl.s.lose(loss{cl: cl, why: errLate})
	}
}

// bound returns ctx, ended also by WithWait and by Close.
func (k *lock) bound(ctx context.Context, try bool) *call {
	if k.o.limited && !try {
		return &call{Context: ctx, closing: k.c.ctx, until: time.Now().Add(k.o.wait), why: errWaited}
	}
	return &call{Context: ctx, closing: k.c.ctx}
}

// claim obtains a held claim, through the gate where there is one.
func (k *lock) claim(ctx *call, need int, try bool) (cl *claim, passed bool, err error) {
	q := &quest{c: k.c, o: k.o, try: try, cl: k.newClaim(need, try)}
	if need < k.limit || k.o.fair || k.o.fixed {
		err = q.run(ctx)
		return q.cl, false, err
	}
	g := k.c.gate(k.gateKey())
	defer g.drop()
	if !try {
		passed, err = g.lock(ctx, q)
		return q.cl, passed, err
	}
	if e, ok := g.holder(); ok {
		return nil, false, &HeldError{Holder: &e, Ahead: 1, Err: ErrHeld}
	}
	q.cl.gate = g // before the grant: it may be lost at once
	if err := q.run(ctx); err != nil {
		return nil, false, err
	}
	g.adopt(q.cl)
	return q.cl, false, nil
}

// newClaim is a claim of need units that the store has never seen.
func (k *lock) newClaim(need int, try bool) *claim {
	return &claim{o: k.o, Claim: driver.Claim{
		Try: 1, Name: k.name, Need: need, Limit: k.limit,
		Queue: !try && k.c.features.Queue, Note: k.o.note,
	}}
}

func (k *lock) gateKey() gateKey {
	return gateKey{k.name, k.limit, k.o.ttl, k.o.maxHold, k.o.note}
}

func (l *Lease) announce(passed bool, start instant) {
	if l.o.observer == nil {
		return
	}
	kind := Acquired
	if passed {
		kind = HandedOver
	}
	l.o.observer.Observe(Event{Kind: kind, Name: l.name, ID: l.ID(), Token: l.Token(), Took: l.c.now().sub(start)})
}

// do runs fn under a lease and gives it back, also if fn panics.
func (l *Lease) do(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		if uerr := l.Unlock(); uerr != nil && !errors.Is(uerr, ErrNotHeld) {
			err = driver.Join(err, uerr)
		}
		stop()
		cancel(context.Cause(l.Context()))
	}()
	return fn(&workContext{work, cancel, l}, l)
}
