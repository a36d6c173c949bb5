package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// clientCases go through package pawl, so that an engine is also seen as users
// see it. They run twice: as it is, and with every tenth reply lost.
var clientCases = []lawCase{
	{name: "client: locks exclude each other", run: clientsExclude,
		why: "Three clients with two goroutines each never hold the same lock at once, whichever kind it is."},
	{name: "client: readers share and exclude a writer", needs: needs{shared: true}, run: clientReaders,
		why: "Two RLocks hold beside each other, a TryLock does not; when both have unlocked, it does."},
	{name: "client: a semaphore has as many permits as it says", needs: needs{count: true}, run: clientSemaphore,
		why: "Permits add up over clients, whatever the number taken at once."},
	{name: "client: TryLock says who holds it", run: clientHeldBy,
		why: "ErrHeld, and a HeldError with the holder's note where the engine tells it for free."},
	{name: "client: a wait ends by WithWait or by ctx", run: clientWaitEnds,
		why: "By WithWait it is ErrHeld; by ctx it is ctx's error and not ErrHeld; nothing is left in line either way."},
	{name: "client: an evicted holder is told", run: clientEvicted,
		why: "The lease's context ends with cause ErrLost by itself, and Unlock says ErrLost."},
	{name: "client: a lease is renewed past its TTL", run: clientRenewed,
		why: "The keeper's beats are what an engine must answer in time."},
	{name: "client: Close gives everything back", run: clientClose,
		why: "Contexts end with ErrClosed, who waits gets ErrClosed, and another client can lock at once."},
	{name: "client: a lease ends once", run: clientLease,
		why: "The hold outlives the ctx of Lock, ends with ErrReleased at Unlock, and a second Unlock is ErrNotHeld."},
	{name: "client: Do holds the lock while its function runs", run: clientDo,
		why: "The lock is given back also when the function fails, and its error comes out."},
	{name: "client: bad names are refused before any I/O", run: badNames,
		why: "Empty, too long, not UTF-8, with control characters: ErrInvalidName, and the store is not asked."},
	{name: "client: names that look alike do not block each other", run: alikeNames,
		why: `"a", "a/", "A" and "a " are four locks.`},
	{name: "client: bad options are refused before any I/O", run: badOptions,
		why: "A TTL of 0, a negative one and the largest duration are ErrInvalid; 1 ns is rounded up."},
	{name: "client: bad permits are refused", run: badPermits,
		why: "More than the limit, none or less, and another limit while the name is in use."},
	{name: "client: a lock is not entered twice by one context", run: ownContext,
		why: "Locking what one's own context holds would wait for ever: ErrReentry, or ErrUpgrade inside a reader."},
}

// client returns a client on the case's engine, or on its peer for every other;
// the end of the case closes it.
func (f *fixture) client(opts ...pawl.Option) *pawl.Client {
	engine := f.engine
	if f.peer != nil && len(f.clients)%2 == 1 {
		engine = f.peer
	}
	c := pawl.New(engine, opts...)
	f.clients = append(f.clients, c)
	return c
}

// acquire is any of the methods that take a lock.
type lockFunc func(context.Context) (*pawl.Lease, error)

// patiently calls take again where the suite itself lost so many replies in a
// row that the client gave up.
func (f *fixture) retryLock(ctx context.Context, take lockFunc) (l *pawl.Lease, err error) {
	err = retryLostReply(ctx, f.losesReplies, func() error {
		l, err = f.lockUntil(ctx, take)
		return err
	})
	return l, err
}

// bounded calls take and comes back soon after ctx has ended, also if an engine
// that ignores it does not let take come back.
func (f *fixture) lockUntil(ctx context.Context, take lockFunc) (*pawl.Lease, error) {
	var l *pawl.Lease // the goroutine's until done is closed
	k := f.inBackground(func() (err error) {
		l, err = take(ctx)
		return err
	})
	select {
	case <-k.done:
		return l, k.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-k.done:
		return l, k.err
	case <-timer.C:
		return nil, fmt.Errorf("a call did not come back within %v of the end of its ctx", soon)
	}
}

// lease takes a lock and fails the case if that fails. Where a client gave up
// because replies were lost, what it asked for may have been granted, and is in
// its own way until it has settled that.
func (f *fixture) mustLock(take lockFunc) *pawl.Lease {
	f.Helper()
	unsure := false
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := f.lockUntil(f.ctx, take)
		unsure = unsure || f.losesReplies && errors.Is(err, pawl.ErrUnreachable)
		switch {
		case err == nil:
			return l
		case unsure && time.Since(start) < soon && (errors.Is(err, pawl.ErrUnreachable) || errors.Is(err, pawl.ErrHeld)):
			continue
		}
		f.Fatalf("taking a lock that is free: %v", err)
	}
}

// expectErr fails unless taking a lock fails with want.
func (f *fixture) expectErr(what string, take lockFunc, want ...error) {
	f.Helper()
	l, err := f.retryLock(f.ctx, take)
	for _, w := range want {
		if !errors.Is(err, w) {
			f.Errorf("%s: %v, not %q", what, err, w)
		}
	}
	if err == nil {
		f.unlock(l)
	} else if strings.ContainsAny(err.Error(), "\r\n") {
		f.Errorf("%s: an error of several lines: %q", what, err.Error())
	}
}

func (f *fixture) unlock(l *pawl.Lease) {
	f.Helper()
	if err := f.unlockErr(l); err != nil {
		f.Errorf("Unlock: %v", err)
	}
}

// giveBack unlocks a lease that is held. Where replies are lost, Unlock may not learn
// whether it was in time; the lock is given back all the same.
func (f *fixture) unlockErr(l *pawl.Lease) error {
	if err := l.Unlock(); !f.losesReplies || !errors.Is(err, pawl.ErrUnknown) {
		return err
	}
	return nil
}

// A sort is one of the user's kinds of lock that one holder has at a time.
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

// clientsExclude judges by a counter of its own.
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
		calls  []*background
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

// until waits for what a client does by itself.
func (f *fixture) until(what string, done <-chan struct{}, within time.Duration) {
	f.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		f.Fatalf("%s: not within %v", what, within)
	}
}
