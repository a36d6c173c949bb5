package drivertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// clientCases go through package pawl, so that an engine is also tested as users
// see it. Each case runs twice: once unchanged, once with one reply in ten lost.
var clientCases = []lawCase{
	{name: "client: locks exclude each other", run: clientsExclude,
		why: "Three clients with two goroutines each never hold the same lock at once, whichever kind it is."},
	{name: "client: readers share and exclude a writer", needs: needs{shared: true}, run: clientReaders,
		why: "Two RLocks hold beside each other, a TryLock does not; when both have unlocked, it does."},
	{name: "client: a semaphore has as many permits as it says", needs: needs{count: true}, run: clientSemaphore,
		why: "Permits of all clients count together, however many are taken at once."},
	{name: "client: TryLock says who holds it", run: clientHeldBy,
		why: "ErrHeld, and a HeldError with the holder's note if the engine reports the holder for free."},
	{name: "client: a wait ends by WithWait or by ctx", run: clientWaitEnds,
		why: "WithWait returns ErrHeld; ctx returns its own error and not ErrHeld; in both cases no claim stays in line."},
	{name: "client: an evicted holder is told", run: clientEvicted,
		why: "The lease's context ends with cause ErrLost by itself, and Unlock says ErrLost."},
	{name: "client: a lease is renewed past its TTL", run: clientRenewed,
		why: "The engine must answer the keeper's beats in time."},
	{name: "client: Confirm asks the store", run: clientConfirm,
		why: "It prolongs a lock that is held, and is ErrLost as soon as the claim was evicted: one Beat says so."},
	{name: "client: Close gives everything back", run: clientClose,
		why: "Lease contexts end with cause ErrClosed, waiting calls return ErrClosed, and another client can lock at once."},
	{name: "client: a lease ends once", run: clientLease,
		why: "The hold outlives the ctx of Lock, ends with ErrReleased at Unlock, and a second Unlock is ErrNotHeld."},
	{name: "client: Do holds the lock while its function runs", run: clientDo,
		why: "The lock is released even if the function fails, and Do returns the function's error."},
	{name: "client: bad names are refused before any I/O", run: badNames,
		why: "Empty, too long, not UTF-8, with control characters: ErrInvalidName, without a call to the store."},
	{name: "client: names that look alike do not block each other", run: alikeNames,
		why: `"a", "a/", "A" and "a " are four locks.`},
	{name: "client: bad options are refused before any I/O", run: badOptions,
		why: "A TTL of 0, a negative one and the largest duration are ErrInvalid; 1 ns is rounded up."},
	{name: "client: bad permits are refused", run: badPermits,
		why: "More than the limit, none or less, and another limit while the name is in use."},
	{name: "client: a lock is not entered twice by one context", run: ownContext,
		why: "Locking what one's own context holds would wait for ever: ErrReentry, or ErrUpgrade inside a reader."},
}

// An exclusiveLock is a lock of package pawl that has one holder at a time.
type exclusiveLock struct {
	name      string
	able      bool
	exclusive bool // tokens grow in the order of holding
	lock, try func(*pawl.Client, string) lockFunc
}

func (f *fixture) exclusiveLocks() []exclusiveLock {
	acquires := func(limit int) (lock, try func(*pawl.Client, string) lockFunc) {
		return func(c *pawl.Client, name string) lockFunc {
				return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(name, limit).Acquire(ctx, 1) }
			}, func(c *pawl.Client, name string) lockFunc {
				return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(name, limit).TryAcquire(ctx, 1) }
			}
	}
	lockOne, tryOne := acquires(1)
	lockFive, tryFive := acquires(5)
	return []exclusiveLock{
		{"mutex", true, true,
			func(c *pawl.Client, n string) lockFunc { return c.Mutex(n).Lock },
			func(c *pawl.Client, n string) lockFunc { return c.Mutex(n).TryLock }},
		{"fair mutex", true, true,
			func(c *pawl.Client, n string) lockFunc { return c.Mutex(n, pawl.WithFair()).Lock },
			func(c *pawl.Client, n string) lockFunc { return c.Mutex(n, pawl.WithFair()).TryLock }},
		{"writer", f.can.Shared, true,
			func(c *pawl.Client, n string) lockFunc { return c.RWMutex(n).Lock },
			func(c *pawl.Client, n string) lockFunc { return c.RWMutex(n).TryLock }},
		{"semaphore of 1", true, true, lockOne, tryOne},
		{"last of 5 permits", f.can.Count, false, lockFive, tryFive},
	}
}

// clientsExclude counts the holders itself instead of relying on the engine.
func clientsExclude(f *fixture) {
	clients := []*pawl.Client{f.client(), f.client(), f.client()}
	for _, k := range f.exclusiveLocks() {
		if !k.able {
			continue
		}
		name := f.name + "/" + k.name
		if k.name == "last of 5 permits" {
			four := f.mustLock(func(ctx context.Context) (*pawl.Lease, error) { return clients[0].Semaphore(name, 5).Acquire(ctx, 4) })
			defer f.unlock(four)
		}
		f.contest(k, name, clients)
		first := f.mustLock(k.try(clients[0], name))
		for _, c := range clients {
			f.expectErr("trying a "+k.name+" that is held", k.try(c, name), pawl.ErrHeld)
		}
		f.unlock(first)
		f.unlock(f.mustLock(k.try(clients[1], name)))
	}
}

func (f *fixture) contest(k exclusiveLock, name string, clients []*pawl.Client) {
	f.Helper()
	var (
		inside atomic.Int32
		mu     sync.Mutex // guards tokens
		tokens []uint64
		calls  []*backgroundCall
	)
	for i := range 2 * len(clients) {
		take := k.lock(clients[i%len(clients)], name)
		calls = append(calls, f.inBackground(func() error {
			for range 5 {
				l, err := f.retryLock(f.ctx, take)
				if err != nil {
					return err
				}
				if n := inside.Add(1); n != 1 {
					return fmt.Errorf("%d hold a %s at the same time", n, k.name)
				}
				mu.Lock()
				tokens = append(tokens, l.Token())
				mu.Unlock()
				inside.Add(-1)
				if err := f.unlockErr(l); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, t := range calls {
		t.wait("contending for a " + k.name)
	}
	if f.can.Fencing == driver.None || !k.exclusive {
		return
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			f.Errorf("%s: token %d was held after %d", k.name, tokens[i], tokens[i-1])
		}
	}
}

func clientReaders(f *fixture) {
	a, b := f.client(), f.client()
	ra, rb := a.RWMutex(f.name), b.RWMutex(f.name)
	one, two := f.mustLock(ra.RLock), f.mustLock(rb.TryRLock)
	if f.can.Fencing != driver.None && one.Token() == two.Token() {
		f.Errorf("two readers have token %d", one.Token())
	}
	f.expectErr("a writer beside readers", rb.TryLock, pawl.ErrHeld)
	f.unlock(one)
	f.expectErr("a writer beside a reader", ra.TryLock, pawl.ErrHeld)
	f.unlock(two)
	w := f.mustLock(ra.TryLock)
	f.expectErr("a reader beside a writer", rb.TryRLock, pawl.ErrHeld)
	f.unlock(w)
	f.unlock(f.mustLock(rb.Lock))
}

func clientSemaphore(f *fixture) {
	a, b := f.client(), f.client()
	try := func(c *pawl.Client, n int) lockFunc {
		return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(f.name, 3).TryAcquire(ctx, n) }
	}
	two := f.mustLock(try(a, 2))
	f.expectErr("2 of 3 permits with 2 taken", try(b, 2), pawl.ErrHeld)
	one := f.mustLock(try(b, 1))
	f.expectErr("a permit with none left", try(a, 1), pawl.ErrHeld)
	f.unlock(two)
	f.unlock(f.mustLock(try(b, 2)))
	f.unlock(one)
	f.unlock(f.mustLock(try(a, 3)))
}
