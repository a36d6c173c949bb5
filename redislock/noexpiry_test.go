package redislock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// An operator may remove the expiry of a hold. It ends like any other nevertheless: the
// next in line gives it one, and a holder that lives renews it.
func TestAHoldWithoutExpiryEndsWithItsHolder(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	for _, shared := range []bool{false, true} {
		take := func(c *pawl.Client) (*pawl.Lease, error) {
			if shared {
				return c.RWMutex("shared").RLock(t.Context())
			}
			return c.Mutex("alone").Lock(t.Context())
		}
		key := map[bool]string{false: "pawl:alone", true: "pawl:shared"}[shared]
		holder := open(t, "redis://"+p.Addr(), pawl.WithTTL(ttl))
		l, err := take(holder)
		if err != nil {
			t.Fatal(err)
		}
		waiter := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
		got := make(chan *pawl.Lease, 1)
		p.BlackHole(faultproxy.Both) // the holder dies
		if at.do("PERSIST", key) != "1" {
			t.Fatal("the hold had no expiry")
		}
		go func() {
			next, err := waiter.RWMutex(key[len("pawl:"):]).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		select {
		case next := <-got:
			if err := l.Err(); err == nil {
				t.Errorf("%s: two hold", key)
			}
			unlock(t, next)
		case <-time.After(10 * ttl):
			t.Fatalf("%s: the hold of a dead holder, whose expiry was removed, does not end", key)
		}
		mend(p)
	}
}

// A waiter of a hold of another client without an expiry polls, but not in a busy loop.
func TestAHoldWithoutExpiryIsNotPolledInABusyLoop(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	waiter := newParty(t, s.Addr(), "bb02", time.Minute)
	at.do("SET", "pawl:"+waiter.Name, "another client")
	back := waiter.wait(waiter.enter(), held)
	waiter.beat()
	const looked = time.Second
	began, before := time.Now(), at.evals()
	time.Sleep(looked)
	took, n := time.Since(began), at.evals()-before
	if most := int(2 * took / (100 * time.Millisecond)); n > most {
		t.Errorf("%d looks in %v", n, took)
	}
	at.do("DEL", "pawl:"+waiter.Name)
	select {
	case <-back:
	case <-time.After(20 * time.Second):
		t.Error("it did not look when the hold had ended")
	}
}
