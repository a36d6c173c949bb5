package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// untouched counts the sessions that are opened: nothing reaches a store
// without one.
type untouched struct {
	driver.Engine
	opened atomic.Int32
}

func (u *untouched) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	u.opened.Add(1)
	return u.Engine.Open(ctx, o)
}

// guarded returns a client on an engine that counts.
func (s *stage) guarded(opts ...pawl.Option) (*pawl.Client, *untouched) {
	u := &untouched{Engine: s.engine}
	c := pawl.New(u, opts...)
	s.clients = append(s.clients, c)
	return c, u
}

// takes are all ways to take a lock of one name.
func takes(c *pawl.Client, name string, opts ...pawl.Option) map[string]acquire {
	m, rw, sem := c.Mutex(name, opts...), c.RWMutex(name, opts...), c.Semaphore(name, 3, opts...)
	return map[string]acquire{
		"Mutex.Lock": m.Lock, "Mutex.TryLock": m.TryLock,
		"RWMutex.Lock": rw.Lock, "RWMutex.RLock": rw.RLock, "RWMutex.TryRLock": rw.TryRLock,
		"Semaphore.Acquire":    func(ctx context.Context) (*pawl.Lease, error) { return sem.Acquire(ctx, 1) },
		"Semaphore.TryAcquire": func(ctx context.Context) (*pawl.Lease, error) { return sem.TryAcquire(ctx, 1) },
		"Mutex.Do": func(ctx context.Context) (*pawl.Lease, error) {
			return nil, m.Do(ctx, func(context.Context, *pawl.Lease) error { return errors.New("the function ran") })
		},
	}
}

func badNames(s *stage) {
	c, store := s.guarded()
	for about, name := range map[string]string{
		"empty": "", "256 bytes": strings.Repeat("x", 256), "256 bytes of runes": strings.Repeat("é", 128),
		"invalid UTF-8": s.name + "\xff", "half a rune": s.name + "\xe2\x82", "a surrogate": s.name + "\xed\xa0\x80",
		"a NUL": s.name + "\x00", "a newline": s.name + "\n", "a tab": s.name + "\ta", "a delete": s.name + "\x7f", "a C1 control": s.name + "\u0085",
	} {
		for how, take := range takes(c, name) {
			s.expectErr(how+" of a name with "+about, take, pawl.ErrInvalidName)
		}
	}
	if n := store.opened.Load(); n != 0 {
		s.Errorf("the store was asked %d times about names that are none", n)
	}
	long := s.name + strings.Repeat("x", 255-len(s.name))
	s.unlock(s.lease(c.Mutex(long).TryLock))
}

func alikeNames(s *stage) {
	c := s.client()
	var held []*pawl.Lease
	for _, name := range []string{"a", "a/", "A", "a ", " a", "a/b", "a:line", "á", "a\u0301", "a%", "a_"} {
		held = append(held, s.lease(c.Mutex(s.name+"/"+name).TryLock))
	}
	for _, l := range held {
		s.unlock(l)
	}
}

func badOptions(s *stage) {
	for about, opts := range map[string][]pawl.Option{
		"a TTL of 0":           {pawl.WithTTL(0)},
		"a negative TTL":       {pawl.WithTTL(-time.Second)},
		"the largest TTL":      {pawl.WithTTL(math.MaxInt64)},
		"a negative wait":      {pawl.WithWait(-1)},
		"no time to hold":      {pawl.WithMaxHold(0)},
		"a note that is long":  {pawl.WithNote(strings.Repeat("x", driver.MaxNote+1))},
		"a note that is wrong": {pawl.WithNote("\xff")},
	} {
		c, store := s.guarded(opts...)
		for how, take := range takes(c, s.name) {
			s.expectErr(how+" with "+about, take, pawl.ErrInvalid)
		}
		plain, untouched := s.guarded()
		for how, take := range takes(plain, s.name, opts...) {
			s.expectErr(how+" of a lock with "+about, take, pawl.ErrInvalid)
		}
		if n := store.opened.Load() + untouched.opened.Load(); n != 0 {
			s.Errorf("%s: the store was asked %d times", about, n)
		}
	}
	// So short a lease may be lost at once on a real machine, and is then not given.
	c := s.client(pawl.WithTTL(time.Nanosecond))
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	l, err := c.Mutex(s.name).TryLock(ctx)
	if errors.Is(err, pawl.ErrInvalid) {
		s.Errorf("a TTL of 1 ns: %v; it should be rounded up", err)
	}
	if err == nil {
		_ = l.Unlock() // may be lost by now
	}
	// What could not be given back, as where that reply was lost too, ends by its expiry.
	s.eventually(3*s.ttl+soon, "the end of a lease of 1 ns", func() bool { return len(s.line()) == 0 })
}

func badPermits(s *stage) {
	a, b := s.client(pawl.WithNote("the holder")), s.client()
	acquires := func(c *pawl.Client, limit, n int) acquire {
		return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(s.name, limit).Acquire(ctx, n) }
	}
	s.expectErr("4 permits of 3", acquires(a, 3, 4), pawl.ErrInvalid, pawl.ErrLimit)
	s.expectErr("0 permits", acquires(a, 3, 0), pawl.ErrInvalid)
	s.expectErr("-1 permits", acquires(a, 3, -1), pawl.ErrInvalid)
	s.expectErr("a semaphore of 0", acquires(a, 0, 1), pawl.ErrInvalid)
	s.expectErr("a semaphore of -1", acquires(a, -1, 1), pawl.ErrInvalid)
	if !s.can.Count {
		s.expectErr("a semaphore of 3", acquires(a, 3, 1), pawl.ErrUnsupported)
		return
	}
	l := s.lease(acquires(a, 3, 1))
	s.expectErr("a permit of another limit", acquires(b, 5, 1), pawl.ErrLimit)
	if _, err := s.patiently(s.ctx, acquires(b, 5, 1)); errors.Is(err, pawl.ErrInvalid) {
		s.Errorf("another limit while the name is in use is no invalid argument: %v", err)
	} else if text := fmt.Sprint(err); !s.lossy && !(strings.Contains(text, "of 5 permits") && strings.Contains(text, "of 3 permits") && strings.Contains(text, "the holder")) {
		s.Errorf("another limit while the name is in use names neither limit nor holder: %s", text)
	}
	s.unlock(l)
	s.unlock(s.lease(acquires(b, 5, 5)))
}

func ownContext(s *stage) {
	c := s.client()
	m := c.Mutex(s.name)
	l := s.lease(m.Lock)
	inside := func(take acquire, l *pawl.Lease) acquire {
		return func(context.Context) (*pawl.Lease, error) { return take(l.Context()) }
	}
	s.promptly("Lock inside one's own Lock", func() {
		s.expectErr("Lock inside one's own Lock", inside(m.Lock, l), pawl.ErrReentry)
		s.expectErr("TryLock inside one's own Lock", inside(m.TryLock, l), pawl.ErrReentry)
	})
	re := c.Mutex(s.name, pawl.WithReentry())
	s.unlock(s.lease(inside(re.Lock, l)))
	if l.Err() != nil {
		s.Errorf("the nested Unlock ended the outer lease: %v", l.Err())
	}
	s.unlock(l)
	if !s.can.Shared {
		return
	}
	rw := c.RWMutex(s.name)
	r := s.lease(rw.RLock)
	s.promptly("Lock inside one's own RLock", func() {
		s.expectErr("Lock inside one's own RLock", inside(rw.Lock, r), pawl.ErrUpgrade)
		s.expectErr("TryLock inside one's own RLock", inside(rw.TryLock, r), pawl.ErrUpgrade)
	})
	s.unlock(r)
}
