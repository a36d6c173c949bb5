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
func (s *stage) client(opts ...pawl.Option) *pawl.Client {
	engine := s.engine
	if s.peer != nil && len(s.clients)%2 == 1 {
		engine = s.peer
	}
	c := pawl.New(engine, opts...)
	s.clients = append(s.clients, c)
	return c
}

// acquire is any of the methods that take a lock.
type acquire func(context.Context) (*pawl.Lease, error)

// patiently calls take again where the suite itself lost so many replies in a
// row that the client gave up.
func (s *stage) patiently(ctx context.Context, take acquire) (l *pawl.Lease, err error) {
	err = again(ctx, s.lossy, func() error {
		l, err = s.bounded(ctx, take)
		return err
	})
	return l, err
}

// bounded calls take and comes back soon after ctx has ended, also if an engine
// that ignores it does not let take come back.
func (s *stage) bounded(ctx context.Context, take acquire) (*pawl.Lease, error) {
	var l *pawl.Lease // the goroutine's until done is closed
	k := s.start(func() (err error) {
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
func (s *stage) lease(take acquire) *pawl.Lease {
	s.Helper()
	unsure := false
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := s.bounded(s.ctx, take)
		unsure = unsure || s.lossy && errors.Is(err, pawl.ErrUnreachable)
		switch {
		case err == nil:
			return l
		case unsure && time.Since(start) < soon && (errors.Is(err, pawl.ErrUnreachable) || errors.Is(err, pawl.ErrHeld)):
			continue
		}
		s.Fatalf("taking a lock that is free: %v", err)
	}
}

// expectErr fails unless taking a lock fails with want.
func (s *stage) expectErr(what string, take acquire, want ...error) {
	s.Helper()
	l, err := s.patiently(s.ctx, take)
	for _, w := range want {
		if !errors.Is(err, w) {
			s.Errorf("%s: %v, not %q", what, err, w)
		}
	}
	if err == nil {
		s.unlock(l)
	} else if strings.ContainsAny(err.Error(), "\r\n") {
		s.Errorf("%s: an error of several lines: %q", what, err.Error())
	}
}

func (s *stage) unlock(l *pawl.Lease) {
	s.Helper()
	if err := s.giveBack(l); err != nil {
		s.Errorf("Unlock: %v", err)
	}
}

// giveBack unlocks a lease that is held. Where replies are lost, Unlock may not learn
// whether it was in time; the lock is given back all the same.
func (s *stage) giveBack(l *pawl.Lease) error {
	if err := l.Unlock(); !s.lossy || !errors.Is(err, pawl.ErrUnknown) {
		return err
	}
	return nil
}

// A sort is one of the user's kinds of lock that one holder has at a time.
type sort struct {
	name      string
	able      bool
	exclusive bool // tokens grow in the order of holding
	lock, try func(*pawl.Client, string) acquire
}

func (s *stage) sorts() []sort {
	acquires := func(limit int) (lock, try func(*pawl.Client, string) acquire) {
		return func(c *pawl.Client, name string) acquire {
				return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(name, limit).Acquire(ctx, 1) }
			}, func(c *pawl.Client, name string) acquire {
				return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(name, limit).TryAcquire(ctx, 1) }
			}
	}
	lockOne, tryOne := acquires(1)
	lockFive, tryFive := acquires(5)
	return []sort{
		{"mutex", true, true,
			func(c *pawl.Client, n string) acquire { return c.Mutex(n).Lock },
			func(c *pawl.Client, n string) acquire { return c.Mutex(n).TryLock }},
		{"fair mutex", true, true,
			func(c *pawl.Client, n string) acquire { return c.Mutex(n, pawl.WithFair()).Lock },
			func(c *pawl.Client, n string) acquire { return c.Mutex(n, pawl.WithFair()).TryLock }},
		{"writer", s.can.Shared, true,
			func(c *pawl.Client, n string) acquire { return c.RWMutex(n).Lock },
			func(c *pawl.Client, n string) acquire { return c.RWMutex(n).TryLock }},
		{"semaphore of 1", true, true, lockOne, tryOne},
		{"last of 5 permits", s.can.Count, false, lockFive, tryFive},
	}
}

// clientsExclude judges by a counter of its own.
func clientsExclude(s *stage) {
	clients := []*pawl.Client{s.client(), s.client(), s.client()}
	for _, k := range s.sorts() {
		if !k.able {
			continue
		}
		name := s.name + "/" + k.name
		if k.name == "last of 5 permits" {
			four := s.lease(func(ctx context.Context) (*pawl.Lease, error) { return clients[0].Semaphore(name, 5).Acquire(ctx, 4) })
			defer s.unlock(four)
		}
		s.contest(k, name, clients)
		first := s.lease(k.try(clients[0], name))
		for _, c := range clients {
			s.expectErr("trying a "+k.name+" that is held", k.try(c, name), pawl.ErrHeld)
		}
		s.unlock(first)
		s.unlock(s.lease(k.try(clients[1], name)))
	}
}

func (s *stage) contest(k sort, name string, clients []*pawl.Client) {
	s.Helper()
	var (
		inside atomic.Int32
		mu     sync.Mutex // guards tokens
		tokens []uint64
		tasks  []*task
	)
	for i := range 2 * len(clients) {
		take := k.lock(clients[i%len(clients)], name)
		tasks = append(tasks, s.start(func() error {
			for range 5 {
				l, err := s.patiently(s.ctx, take)
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
				if err := s.giveBack(l); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, t := range tasks {
		t.wait("contending for a " + k.name)
	}
	if s.can.Fencing == driver.None || !k.exclusive {
		return
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			s.Errorf("%s: token %d was held after %d", k.name, tokens[i], tokens[i-1])
		}
	}
}

func clientReaders(s *stage) {
	a, b := s.client(), s.client()
	ra, rb := a.RWMutex(s.name), b.RWMutex(s.name)
	one, two := s.lease(ra.RLock), s.lease(rb.TryRLock)
	if s.can.Fencing != driver.None && one.Token() == two.Token() {
		s.Errorf("two readers have token %d", one.Token())
	}
	s.expectErr("a writer beside readers", rb.TryLock, pawl.ErrHeld)
	s.unlock(one)
	s.expectErr("a writer beside a reader", ra.TryLock, pawl.ErrHeld)
	s.unlock(two)
	w := s.lease(ra.TryLock)
	s.expectErr("a reader beside a writer", rb.TryRLock, pawl.ErrHeld)
	s.unlock(w)
	s.unlock(s.lease(rb.Lock))
}

func clientSemaphore(s *stage) {
	a, b := s.client(), s.client()
	try := func(c *pawl.Client, n int) acquire {
		return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(s.name, 3).TryAcquire(ctx, n) }
	}
	two := s.lease(try(a, 2))
	s.expectErr("2 of 3 permits with 2 taken", try(b, 2), pawl.ErrHeld)
	one := s.lease(try(b, 1))
	s.expectErr("a permit with none left", try(a, 1), pawl.ErrHeld)
	s.unlock(two)
	s.unlock(s.lease(try(b, 2)))
	s.unlock(one)
	s.unlock(s.lease(try(a, 3)))
}

// until waits for what a client does by itself.
func (s *stage) until(what string, done <-chan struct{}, within time.Duration) {
	s.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.Fatalf("%s: not within %v", what, within)
	}
}
