package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The holder's link stops carrying data, at ten phases of the renewal cycle. Its context
// must have ended each time when the rival's Lock returns.
func TestTheLeaseEndsBeforeTheRivalHolds(t *testing.T) {
	t.Parallel()
	const (
		ttl    = 2 * time.Second
		phases = 10
		each   = 20
	)
	s := testserver.Redis(t)
	rival := open(t, "redis://"+s.Addr())
	var wg sync.WaitGroup
	for phase := range phases {
		wg.Go(func() {
			p := faultproxy.New(t, s.Addr())
			c := open(t, "redis://"+p.Addr(), pawl.WithTTL(ttl))
			var leases []*pawl.Lease
			for i := range each {
				l, err := c.Mutex(fmt.Sprintf("p%d/%d", phase, i)).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				leases = append(leases, l)
			}
			time.Sleep(ttl + time.Duration(phase)*ttl/3/phases) // past a first beat, then to the phase
			p.BlackHole(faultproxy.Both)
			var rivals sync.WaitGroup
			for i, l := range leases {
				rivals.Go(func() {
					next, err := rival.Mutex(fmt.Sprintf("p%d/%d", phase, i)).Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if l.Context().Err() == nil || l.Err() == nil {
						t.Errorf("phase %d: two hold the name", phase)
					}
					if next.Fence() <= l.Fence() {
						t.Errorf("token %d after %d", next.Fence(), l.Fence())
					}
					if err := next.Unlock(); err != nil {
						t.Error(err)
					}
				})
			}
			rivals.Wait()
			mend(p)
		})
	}
	wg.Wait()
}

// Claims that share a name have one key; if another client takes it, they have lost it.
func TestReadersLoseANameWhoseKeyIsGoneOrTaken(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, one driver.Session, at *console) {
		for i, words := range [][]string{{"DEL", "pawl:name"}, {"SET", "pawl:name", "another", "PX", "60000"}} {
			c := exclusive(i+1, "name")
			c.Limit = driver.All
			if st, err := one.Enter(t.Context(), c); err != nil || !st.Held {
				t.Fatal(st, err)
			}
			at.do(words...)
			before, out := at.do("GET", "pawl:name"), make([]driver.Standing, 1)
			if err := one.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Gone {
				t.Errorf("%v, and a reader has %+v, %v", words, out[0], err)
			}
			if after := at.do("GET", "pawl:name"); after != before {
				t.Errorf("%v: a beat made %q of %q", words, after, before)
			}
		}
	})
}

func TestAKeyThatIsDeletedOrChangedIsALoss(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	for about, words := range map[string][]string{
		"deleted":     {"DEL", "pawl:deleted"},
		"expired":     {"PEXPIRE", "pawl:expired", "1"},
		"overwritten": {"SET", "pawl:overwritten", "another", "PX", "60000"},
		"flushed":     {"FLUSHALL"},
	} {
		if about == "flushed" {
			continue // last: it also ends the others
		}
		t.Run(about, func(t *testing.T) {
			l := lock(t, c.Mutex(about))
			at.do(words...)
			before := at.do("GET", "pawl:"+about)
			lost(t, l, ttl)
			if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Unlock: %v, not ErrLost", err)
			}
			if after := at.do("GET", "pawl:"+about); after != before && about == "overwritten" || about != "overwritten" && after != "" {
				t.Errorf("the key is %q", after)
			}
		})
	}
	t.Run("flushed", func(t *testing.T) {
		l := lock(t, c.Mutex("flushed"))
		r, err := c.RWMutex("shared").RLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at.do("FLUSHALL")
		lost(t, l, ttl)
		lost(t, r, ttl)
		next := lock(t, c.Mutex("flushed"))
		if next.Fence() <= l.Fence() {
			t.Errorf("token %d after %d: data loss must not take tokens back", next.Fence(), l.Fence())
		}
		outlast(ttl)
		if err := next.Err(); err != nil {
			t.Errorf("a later hold is not renewed: %v", err)
		}
		unlock(t, next)
	})
}

// After Unlock no call of pawl's touches the key.
func TestRenewalNeverOutlivesUnlock(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	var wg sync.WaitGroup
	for i := range 10 {
		name := fmt.Sprint("name", i)
		c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)) // each has its own beats
		wg.Go(func() {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(ttl/3 - 5*time.Millisecond + time.Duration(i)*time.Millisecond) // about when a beat is sent
			unlock(t, l)
			if _, err := at.try("SET", "pawl:"+name, "another's", "PX", "100"); err != nil {
				t.Error(err)
			}
			time.Sleep(110 * time.Millisecond)
			if n, err := at.try("EXISTS", "pawl:"+name); n != "0" {
				t.Errorf("another's key was prolonged: %s, %v", n, err)
			}
		})
	}
	wg.Wait()
}

func TestAReaderDoesNotRenewADeadReader(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s, p := proxied(t)
	living := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	dead := open(t, "redis://"+p.Addr(), pawl.WithTTL(ttl))
	one, err := living.RWMutex("name").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.RWMutex("name").RLock(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.BlackHole(faultproxy.Both)
	until(t, 3*ttl, "down to one reader", func() bool {
		n := 0
		for _, err := range living.List(t.Context(), "name") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n == 1
	})
	unlock(t, one)
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	w, err := living.RWMutex("name").Lock(ctx)
	if err != nil {
		t.Fatalf("a dead reader keeps a writer out: %v", err)
	}
	unlock(t, w)
	mend(p)
}

func TestANestedHoldEndsWithItsLastUnlock(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl), pawl.WithReentry())
	outer := lock(t, c.Mutex("name"))
	ctx := outer.Context()
	var inner []*pawl.Lease
	for range 3 {
		l, err := c.Mutex("name").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		inner, ctx = append(inner, l), l.Context()
	}
	for i := len(inner) - 1; i >= 0; i-- {
		unlock(t, inner[i])
	}
	outlast(ttl)
	if err := outer.Err(); err != nil || at.do("EXISTS", "pawl:name") != "1" {
		t.Errorf("the outer hold after the inner ones: %v", err)
	}
	unlock(t, outer)
	if at.do("EXISTS", "pawl:name") != "0" {
		t.Error("the key is still there")
	}
}
