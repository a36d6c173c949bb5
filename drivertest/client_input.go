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

// openCounter counts opened sessions. Without a session, no lock request reaches
// the store.
type openCounter struct {
	driver.Engine
	opened atomic.Int32
}

func (u *openCounter) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	u.opened.Add(1)
	return u.Engine.Open(ctx, o)
}

// countingClient returns a client on an engine that counts its sessions.
func (f *fixture) countingClient(opts ...pawl.Option) (*pawl.Client, *openCounter) {
	u := &openCounter{Engine: f.engine}
	c := pawl.New(u, opts...)
	f.clients = append(f.clients, c)
	return c, u
}

// lockFuncs returns every way to take a lock on one name.
func lockFuncs(c *pawl.Client, name string, opts ...pawl.Option) map[string]lockFunc {
	m, rw, sem := c.Mutex(name, opts...), c.RWMutex(name, opts...), c.Semaphore(name, 3, opts...)
	return map[string]lockFunc{
		"Mutex.Lock": m.Lock, "Mutex.TryLock": m.TryLock,
		"RWMutex.Lock": rw.Lock, "RWMutex.RLock": rw.RLock, "RWMutex.TryRLock": rw.TryRLock,
		"Semaphore.Acquire":    func(ctx context.Context) (*pawl.Lease, error) { return sem.Acquire(ctx, 1) },
		"Semaphore.TryAcquire": func(ctx context.Context) (*pawl.Lease, error) { return sem.TryAcquire(ctx, 1) },
		"Mutex.Do": func(ctx context.Context) (*pawl.Lease, error) {
			return nil, m.Do(ctx, func(context.Context, *pawl.Lease) error { return errors.New("the function ran") })
		},
	}
}

func badNames(f *fixture) {
	c, store := f.countingClient()
	for about, name := range map[string]string{
		"empty": "", "256 bytes": strings.Repeat("x", 256), "256 bytes of runes": strings.Repeat("é", 128),
		"invalid UTF-8": f.name + "\xff", "half a rune": f.name + "\xe2\x82", "a surrogate": f.name + "\xed\xa0\x80",
		"a NUL": f.name + "\x00", "a newline": f.name + "\n", "a tab": f.name + "\ta", "a delete": f.name + "\x7f", "a C1 control": f.name + "\u0085",
	} {
		for how, take := range lockFuncs(c, name) {
			f.expectErr(how+" of a name with "+about, take, pawl.ErrInvalidName)
		}
	}
	if n := store.opened.Load(); n != 0 {
		f.Errorf("the store was asked %d times about names that are none", n)
	}
	long := f.name + strings.Repeat("x", 255-len(f.name))
	f.unlock(f.mustLock(c.Mutex(long).TryLock))
}

func alikeNames(f *fixture) {
	c := f.client()
	var held []*pawl.Lease
	for _, name := range []string{"a", "a/", "A", "a ", " a", "a/b", "a:line", "á", "a\u0301", "a%", "a_"} {
		held = append(held, f.mustLock(c.Mutex(f.name+"/"+name).TryLock))
	}
	for _, l := range held {
		f.unlock(l)
	}
}

func badOptions(f *fixture) {
	for about, opts := range map[string][]pawl.Option{
		"a TTL of 0":           {pawl.WithTTL(0)},
		"a negative TTL":       {pawl.WithTTL(-time.Second)},
		"the largest TTL":      {pawl.WithTTL(math.MaxInt64)},
		"a negative wait":      {pawl.WithWait(-1)},
		"no time to hold":      {pawl.WithMaxHold(0)},
		"a note that is long":  {pawl.WithNote(strings.Repeat("x", driver.MaxNote+1))},
		"a note that is wrong": {pawl.WithNote("\xff")},
	} {
		c, store := f.countingClient(opts...)
		for how, take := range lockFuncs(c, f.name) {
			f.expectErr(how+" with "+about, take, pawl.ErrInvalid)
		}
		plain, untouched := f.countingClient()
		for how, take := range lockFuncs(plain, f.name, opts...) {
			f.expectErr(how+" of a lock with "+about, take, pawl.ErrInvalid)
		}
		if n := store.opened.Load() + untouched.opened.Load(); n != 0 {
			f.Errorf("%s: the store was asked %d times", about, n)
		}
	}
	// Such a short lease may expire before Lock returns, which is then an error.
	c := f.client(pawl.WithTTL(time.Nanosecond))
	ctx, cancel := context.WithTimeout(f.ctx, soon)
	defer cancel()
	l, err := c.Mutex(f.name).TryLock(ctx)
	if errors.Is(err, pawl.ErrInvalid) {
		f.Errorf("a TTL of 1 ns: %v; it should be rounded up", err)
	}
	if err == nil {
		_ = l.Unlock() // may have expired by now
	}
	// A lease that could not be released, for example because that reply was lost
	// too, expires.
	f.eventually(3*f.ttl+soon, "the end of a lease of 1 ns", func() bool { return len(f.line()) == 0 })
}

func badPermits(f *fixture) {
	a, b := f.client(pawl.WithNote("the holder")), f.client()
	acquires := func(c *pawl.Client, limit, n int) lockFunc {
		return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(f.name, limit).Acquire(ctx, n) }
	}
	f.expectErr("4 permits of 3", acquires(a, 3, 4), pawl.ErrInvalid, pawl.ErrLimit)
	f.expectErr("0 permits", acquires(a, 3, 0), pawl.ErrInvalid)
	f.expectErr("-1 permits", acquires(a, 3, -1), pawl.ErrInvalid)
	f.expectErr("a semaphore of 0", acquires(a, 0, 1), pawl.ErrInvalid)
	f.expectErr("a semaphore of -1", acquires(a, -1, 1), pawl.ErrInvalid)
	if !f.can.Count {
		f.expectErr("a semaphore of 3", acquires(a, 3, 1), pawl.ErrUnsupported)
		return
	}
	l := f.mustLock(acquires(a, 3, 1))
	f.expectErr("a permit of another limit", acquires(b, 5, 1), pawl.ErrLimit)
	if _, err := f.retryLock(f.ctx, acquires(b, 5, 1)); errors.Is(err, pawl.ErrInvalid) {
		f.Errorf("another limit while the name is in use is no invalid argument: %v", err)
	} else if text := fmt.Sprint(err); !f.losesReplies && !(strings.Contains(text, "of 5 permits") && strings.Contains(text, "of 3 permits") && strings.Contains(text, "the holder")) {
		f.Errorf("another limit while the name is in use names neither limit nor holder: %s", text)
	}
	f.unlock(l)
	f.unlock(f.mustLock(acquires(b, 5, 5)))
}

func ownContext(f *fixture) {
	c := f.client()
	m := c.Mutex(f.name)
	l := f.mustLock(m.Lock)
	inside := func(take lockFunc, l *pawl.Lease) lockFunc {
		return func(context.Context) (*pawl.Lease, error) { return take(l.Context()) }
	}
	f.promptly("Lock inside one's own Lock", func() {
		f.expectErr("Lock inside one's own Lock", inside(m.Lock, l), pawl.ErrReentry)
		f.expectErr("TryLock inside one's own Lock", inside(m.TryLock, l), pawl.ErrReentry)
	})
	re := c.Mutex(f.name, pawl.WithReentry())
	f.unlock(f.mustLock(inside(re.Lock, l)))
	if l.Err() != nil {
		f.Errorf("the nested Unlock ended the outer lease: %v", l.Err())
	}
	f.unlock(l)
	if !f.can.Shared {
		return
	}
	rw := c.RWMutex(f.name)
	r := f.mustLock(rw.RLock)
	f.promptly("Lock inside one's own RLock", func() {
		f.expectErr("Lock inside one's own RLock", inside(rw.Lock, r), pawl.ErrUpgrade)
		f.expectErr("TryLock inside one's own RLock", inside(rw.TryLock, r), pawl.ErrUpgrade)
	})
	f.unlock(r)
}
