package pawl

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
)

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
	return m.k.do(ctx, "lock", 1, fn)
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

// Do runs fn while it holds the lock for writing, as Mutex.Do does.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.k.do(ctx, "lock", driver.All, fn)
}

// RDo runs fn while it holds the lock for reading, as Mutex.Do does.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.k.do(ctx, "rlock", 1, fn)
}

// A Semaphore is a lock with a number of permits. All users of a name must agree
// on the number.
type Semaphore struct{ k lock }

// Semaphore returns the semaphore called name that has limit permits.
func (c *Client) Semaphore(name string, limit int, opts ...Option) *Semaphore {
	return &Semaphore{lock{c: c, name: name, limit: limit, semaphore: true, o: c.options(opts)}}
}

// Acquire waits for n permits at once. First come, first served: a caller that waits
// for many keeps later ones out. More than the semaphore has, or none, is ErrInvalid;
// a name that is in use with another number of permits is ErrLimit.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.k.take(ctx, "acquire", n, false)
}

// TryAcquire takes n permits now or returns ErrHeld.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.k.take(ctx, "acquire", n, true)
}

// Do runs fn while it holds n permits, as Mutex.Do does.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, lease *Lease) error) error {
	return s.k.do(ctx, "acquire", n, fn)
}

// do waits for need units of the lock and runs fn while it holds them.
func (k *lock) do(ctx context.Context, op string, need int, fn func(context.Context, *Lease) error) error {
	if fn == nil {
		panic("pawl: Do without a function")
	}
	lease, err := k.take(ctx, op, need, false)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// take acquires need units of the lock.
func (k *lock) take(ctx context.Context, op string, need int, try bool) (*Lease, error) {
	requireContext(ctx)
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
	try = try || k.o.limited && k.o.wait == 0
	wait := k.bound(ctx, try)
	defer wait.end()
	own, carried := k.owner(ctx)
	if chain == nil {
		chain = carried
	}
	if own != nil && !k.semaphore {
		if l, err := k.nest(ctx, wait, own, chain, need, try); !errors.Is(err, errNoOwner) {
			return l, err
		}
	}
	r := k.newReport(ctx)
	defer k.o.observers.settle()
	for began := r.start; ; began = 0 {
		a := &acquisition{c: k.c, o: k.o, try: try, began: began, report: r}
		passed, err := k.claim(wait, a, need)
		r = a.report
		if err != nil {
			k.tellRefused(r, need, err)
			return nil, err
		}
		if l := newLease(ctx, k, a.cl, chain); l != nil {
			l.tellHeld(r, passed)
			return l, nil
		}
		// Lost between the grant and here, so that nobody was told of it: once more.
		a.cl.s.lose(loss{cl: a.cl, why: errLate})
	}
}

func (k *lock) newReport(ctx context.Context) report {
	r := report{caller: ctx}
	if len(k.o.observers) > 0 {
		r.start = k.c.now()
	}
	return r
}

// tellHeld counts a lease, and tells the observers of it, and then of its loss if it
// was lost meanwhile.
func (l *Lease) tellHeld(r report, passed bool) {
	e := Event{Kind: Acquired, Token: token(l.fence, l.pass), Waited: r.waiting, Took: l.since.Sub(r.start), Context: r.caller}
	if passed {
		e.Kind = HandedOver
	} else if r.waiting {
		l.c.counters.waited.Add(1)
	}
	l.c.tell(l.cl, l.o, e)
	if len(l.o.observers) > 0 {
		l.cl.s.told(l.cl)
	}
}

// tellRefused counts, and tells the observers of, an acquire that err ended.
func (k *lock) tellRefused(r report, need int, err error) {
	e := Event{Kind: Refused, Err: err, Context: r.caller}
	if r.waiting {
		e.Kind = GaveUp
	}
	if len(k.o.observers) == 0 {
		k.c.counters.count(e.Kind)
		return
	}
	e.Took = k.c.now().Sub(r.start)
	cl := k.newClaim(need, false) // that of the acquisition may be another's by now
	cl.ID = r.id
	k.c.tell(cl, k.o, e)
}

// do runs fn under a lease and gives it back, also if fn panics.
func (l *Lease) do(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		lost := errors.Is(err, ErrLost) && errors.Is(err, context.Cause(l.Context())) // fn has said so
		if uerr := l.Unlock(); uerr != nil && !errors.Is(uerr, ErrNotHeld) && !(lost && errors.Is(uerr, ErrLost)) {
			err = driver.Join(err, uerr)
		}
		stop()
		cancel(context.Cause(l.Context()))
	}()
	return fn(&workContext{work, cancel, l}, l)
}
