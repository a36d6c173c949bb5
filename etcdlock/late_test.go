package etcdlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// An Enter is delayed in the network, and its caller gives up. The repeated Enter is
// granted over another connection and evicted, and a rival holds. Then the first request
// arrives.
func TestAnEnterThatArrivesAfterAnEvictionIsAnotherClaim(t *testing.T) {
	t.Parallel()
	const rounds = 5
	late := 1500 * time.Millisecond
	server := sharedEtcd(t)
	near := engine(t, []string{server.Addr()})
	rival := open(t, near, longTTL)
	arrivals, both := 0, 0
	for range rounds {
		name := "name/" + newID()
		proxies := []*faultproxy.Proxy{faultproxy.New(t, server.Addr()), faultproxy.New(t, server.Addr())}
		s := open(t, engine(t, []string{proxies[0].Addr(), proxies[1].Addr()}), longTTL)
		a, b := mutex(name), mutex(name)
		var once sync.Once
		delay := late
		for _, p := range proxies {
			p.OnChunk(func(k faultproxy.Chunk) {
				if k.Dir == faultproxy.ToServer && k.Stage == faultproxy.Arrived && contains(name)(k.Data) {
					once.Do(func() { p.Delay(faultproxy.ToServer, delay) })
				}
			})
		}
		sent := time.Now()
		expect(t, "Enter that is delayed", enterFor(t, s, a, 100*time.Millisecond), context.DeadlineExceeded)
		for begun := time.Now(); enterFor(t, s, a, late/5) != nil; {
			if time.Since(begun) > 8*soon {
				t.Fatal("no Enter over the other connection was answered")
			}
		}
		if time.Since(sent) > late*2/3 {
			late *= 2 // on this machine the delayed request arrives too soon
		}
		evict(t, near, name)
		hold(t, rival, b)
		for begun := time.Now(); len(keysOf(t, near, name)) == 1 && time.Since(begun) < late+soon; {
			time.Sleep(10 * time.Millisecond) // nothing reports its arrival
		}
		for _, p := range proxies {
			p.OnChunk(nil)
			p.Heal()
		}
		if len(keysOf(t, near, name)) == 1 {
			continue // the server has dropped it
		}
		arrivals++
		if st := beat(t, s, a); !st.Gone {
			both++
			t.Errorf("Beat: %+v for an evicted claim, while a rival holds", st)
		}
		if keys := keysOf(t, near, name); len(keys) != 1 {
			t.Errorf("in line are %q, not only the rival", keys)
		}
		expect(t, "Leave of an evicted claim", s.Leave(t.Context(), a), driver.ErrGone)
	}
	t.Logf("%d of %d arrived; in %d both held", arrivals, rounds, both)
	if arrivals == 0 {
		t.Error("no request arrived late")
	}
}

// enterFor enters c with a timeout.
func enterFor(t testing.TB, s *session, c driver.Claim, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := s.Enter(ctx, c)
	return err
}

// endsBeforeArrival are the ways in which a claim can end before its first Enter arrives.
var endsBeforeArrival = map[string]func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()){
	"it waits, is evicted, and is read": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		rival := open(t, near, longTTL)
		first := mutex(c.Name)
		hold(t, rival, first)
		last := wait(t, s, c)
		for _, e := range lineOf(t, near, c.Name)[1:] {
			if err := near.Evict(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		arrive()
		if st, err := s.Await(t.Context(), c, last); err != nil || !st.Gone {
			t.Errorf("Await: %+v, %v", st, err)
		}
		beat(t, s, c)
		if keys := keysOf(t, near, c.Name); len(keys) != 1 {
			t.Errorf("in line are %q, not only the holder", keys)
		}
	},
	"it is evicted, and left before the beat": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		hold(t, s, c)
		evict(t, near, c.Name)
		arrive()
		expect(t, "Leave of an evicted claim", s.Leave(t.Context(), c), driver.ErrGone)
		if keys := keysOf(t, near, c.Name); len(keys) != 0 {
			t.Errorf("in line are %q", keys)
		}
	},
	"it is left, and arrives after it was forgotten": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		hold(t, s, c)
		leave(t, s, c)
		next := mutex(c.Name)
		hold(t, s, next)
		arrive()
		if st := beat(t, s, next); !st.Held {
			t.Errorf("Beat: %+v for the next claim", st)
		}
		if keys := keysOf(t, near, c.Name); len(keys) != 1 {
			t.Errorf("in line are %q, not only the next claim", keys)
		}
	},
	"it is forgotten, and the next claim is evicted": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		s.mu.Lock()
		s.claims[c.ID].unanswered = time.Now().Add(-time.Hour) // a TTL has passed since
		s.mu.Unlock()
		expect(t, "Leave of a claim that has not arrived", s.Leave(t.Context(), c), driver.ErrGone)
		next := mutex(c.Name)
		hold(t, s, next)
		evict(t, near, c.Name)
		rival := open(t, near, longTTL)
		hold(t, rival, mutex(c.Name))
		arrive()
		if st := beat(t, s, next); !st.Gone {
			t.Errorf("Beat: %+v for an evicted claim, while a rival holds", st)
		}
		if keys := keysOf(t, near, c.Name); len(keys) != 1 {
			t.Errorf("in line are %q, not only the rival", keys)
		}
	},
	"its session has ended": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		hold(t, s, c)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		arrive()
		if keys := keysOf(t, near, c.Name); len(keys) != 0 {
			t.Errorf("in line are %q", keys)
		}
	},
	"it is repeated once more": func(t *testing.T, near *Engine, s *session, c driver.Claim, arrive func()) {
		first := hold(t, s, c)
		arrive() // refused: the key is there
		if again := hold(t, s, c); again.Token != first.Token {
			t.Errorf("token %d became %d", first.Token, again.Token)
		}
		if st := beat(t, s, c); !st.Held || st.Token != first.Token {
			t.Errorf("Beat: %+v", st)
		}
		leave(t, s, c)
	},
}

func TestALateEnterIsNeverMistakenForTheGrant(t *testing.T) {
	t.Parallel()
	for name, do := range endsBeforeArrival {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{sharedEtcd(t).Addr()}
			var d delayedPut
			near, s := engine(t, addr), open(t, engine(t, addr, d.option()), longTTL)
			c := mutex("name")
			arrive := d.hold()
			if _, err := s.Enter(t.Context(), c); err == nil {
				t.Fatal("a delayed Enter was answered")
			}
			do(t, near, s, c, func() {
				t.Helper()
				if err := arrive(); err != nil {
					t.Logf("the late Enter: %v", err)
				}
			})
		})
	}
}

// While a Leave of the first try is in flight, the second try is granted in the same
// slot, and the Leave finds its key there.
func TestALeaveThatFindsALaterTryInItsSlotEndsNothing(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var p interceptor
	near, s := engine(t, addr), open(t, engine(t, addr, p.option()), longTTL)
	one := mutex("name")
	two := one
	two.Try++
	p.next(puts, loseRequest)
	if st, err := s.Enter(t.Context(), one); err == nil {
		t.Fatalf("Enter that never arrived: %+v", st)
	}
	s.mu.Lock()
	key := s.claims[one.ID].key
	s.claims[one.ID].unanswered = time.Now().Add(-time.Hour) // a TTL has passed since
	s.mu.Unlock()
	var held driver.Standing
	p.next(deletes, func(send func() error) error {
		held = hold(t, s, two)
		return send()
	})
	expect(t, "Leave of the first try", s.Leave(t.Context(), one), driver.ErrGone)
	if now := s.find(two); now == nil || now.key != key || held.Token == 0 {
		t.Fatalf("the second try, granted as %+v, is %+v, not at key %s", held, now, key)
	}
	if st := beat(t, s, two); !st.Held || st.Token != held.Token {
		t.Errorf("Beat: %+v for the second try, after a Leave of the first", st)
	}
	if st := enter(t, open(t, near, longTTL), tries(mutex("name"))); st.Held {
		t.Errorf("a rival holds beside the second try: %+v", st)
	}
}
