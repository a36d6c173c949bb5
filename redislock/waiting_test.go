package redislock_test

import (
	"context"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// A party is one client with one exclusive claim.
type party struct {
	t *testing.T
	driver.Session
	driver.Claim
}

func newParty(t *testing.T, addr, id string, ttl time.Duration) *party {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	e := rueidis.New(c)
	t.Cleanup(func() { _ = e.Close(); c.Close() })
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "of" + id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return &party{t, s, driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}}
}

func (p *party) enter() driver.Standing {
	p.t.Helper()
	st, err := p.Enter(p.t.Context(), p.Claim)
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

func (p *party) beat() driver.Standing {
	p.t.Helper()
	out := make([]driver.Standing, 1)
	if err := p.Beat(p.t.Context(), []driver.Claim{p.Claim}, out); err != nil {
		p.t.Fatal(err)
	}
	return out[0]
}

// wait awaits, in the background, until as accepts the claim's standing.
func (p *party) wait(last driver.Standing, as func(driver.Standing) bool) <-chan driver.Standing {
	back := make(chan driver.Standing, 1)
	go func() { // ends with the test's context
		for !as(last) {
			st, err := p.Await(p.t.Context(), p.Claim, last)
			if err != nil || st.Gone {
				if p.t.Context().Err() == nil {
					p.t.Errorf("Await of %s: %+v, %v", p.ID, st, err)
				}
				return
			}
			last = st
		}
		back <- last
	}()
	return back
}

func held(st driver.Standing) bool { return st.Held }

// A waiting claim costs its beats only: they report what a look would.
func TestAWaiterThatIsBeatenNeedNotLook(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	holder, waiter := newParty(t, s.Addr(), "aa01", steady), newParty(t, s.Addr(), "bb02", steady)
	if !holder.enter().Held {
		t.Fatal("a free name is not held")
	}
	back := waiter.wait(waiter.enter(), held)
	began, beats, before := time.Now(), 0, 0
	for time.Since(began) < 2*steady {
		for range 2 {
			if !holder.beat().Held {
				t.Fatal("the hold was lost")
			}
			if st := waiter.beat(); st.Held || st.Gone || st.Valid == 0 {
				t.Fatalf("the waiter stands at %+v", st)
			}
			beats += 2
			if before == 0 && time.Since(began) > steady/4 { // the first Await has looked
				before, beats = at.evals(), 0
			}
		}
		select {
		case <-back:
			t.Fatal("two hold")
		case <-time.After(steady / 4):
		}
	}
	if looks := at.evals() - before - beats; looks > 0 {
		t.Errorf("%d looks beside %d beats", looks, beats)
	}
}

// When the holder changes while a claim waits, the claim looks, at most once per TTL.
func TestAWaiterLearnsTheNewHolder(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	first, second, third := newParty(t, s.Addr(), "aa01", steady), newParty(t, s.Addr(), "bb02", steady), newParty(t, s.Addr(), "cc03", steady)
	at := newConsole(t, s.Addr())
	first.enter()
	second.enter()
	last := third.enter()
	if last.Holder == nil || last.Holder.ID != first.ID {
		t.Fatalf("the third is told of %+v", last.Holder)
	}
	entered := at.evals()
	told := third.wait(last, func(st driver.Standing) bool { return st.Holder != nil && st.Holder.ID == second.ID })
	until(t, 5*time.Second, "looked, once it was subscribed", func() bool { return at.evals() > entered })
	if err := first.Leave(t.Context(), first.Claim); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; {
		second.beat()
		third.beat()
		select {
		case <-told:
			return
		case <-time.After(steady / 4):
		}
		if time.Since(began) > 10*steady {
			t.Fatal("the third is not told of the second")
		}
	}
}

// A claim that becomes the first in line looks when the hold may expire, although it was to
// look later before.
func TestTheFirstWaiterLooksWhenTheHoldExpires(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	holder, first := newParty(t, s.Addr(), "aa01", steady), newParty(t, s.Addr(), "bb02", time.Minute)
	second := newParty(t, s.Addr(), "cc03", time.Minute)
	holder.enter()
	first.enter()
	at := newConsole(t, s.Addr())
	last := second.enter() // it is to look in a minute
	entered := at.evals()
	back := second.wait(last, held)
	until(t, 5*time.Second, "looked, once it was subscribed", func() bool { return at.evals() > entered })
	if err := first.Leave(t.Context(), first.Claim); err != nil {
		t.Fatal(err)
	}
	second.beat()
	select {
	case <-back:
	case <-time.After(15 * time.Second):
		t.Error("it did not look when the hold had ended")
	}
}

// An older version of pawl, whose waiters are not ordered by token, counts places on from
// #place: earlier claims are ahead of its own, and have lower tokens.
func TestAnOlderVersionQueuesBehindEarlierClaims(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	newParty(t, s.Addr(), "aa01", steady).enter()
	newParty(t, s.Addr(), "bb02", steady).enter()
	newParty(t, s.Addr(), "cc03", steady).enter()
	line := "pawl:\x01hname"
	place, last := at.do("HGET", line, "#place"), at.do("ZSCORE", line+"\x01w", "cc03")
	if place == "" || place != last {
		t.Errorf("the last waiter has %q, and an older version would count on from %q", last, place)
	}
}

// A session that ends its own claim gets no message: the claim's Await must return at once
// and not at the holder's expiry, a minute later.
func TestALeaveEndsTheAwaitOfItsClaim(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, one driver.Session, at *console) {
		holds, waits := exclusive(1, "name"), exclusive(2, "name")
		if st, err := one.Enter(t.Context(), holds); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		last, err := one.Enter(t.Context(), waits)
		if err != nil || last.Held {
			t.Fatal(last, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		before := at.evals()
		go func() {
			st, err := last, error(nil)
			for err == nil && !st.Gone { // it may return before
				st, err = one.Await(ctx, waits, st)
			}
			ended <- err
		}()
		until(t, 10*time.Second, "looked, and waiting", func() bool { return at.evals() > before })
		time.Sleep(20 * time.Millisecond) // so that it most likely waits; if not, it looks first
		if err := one.Leave(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Await of a claim that was left: %v", err)
		}
	})
}

// A holder loses its key, and enters again while another client holds: the claim waits now,
// and must be notified of its next grant.
func TestAClaimThatHeldAndWaitsAgainIsNotified(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	first, other := newParty(t, s.Addr(), "aa01", time.Minute), newParty(t, s.Addr(), "bb02", time.Minute)
	if !first.enter().Held {
		t.Fatal("a free name is not held")
	}
	newConsole(t, s.Addr()).do("DEL", "pawl:"+first.Name)
	if !other.enter().Held {
		t.Fatal("a free name is not held")
	}
	st := first.enter()
	if st.Held {
		t.Fatal("two claims hold")
	}
	back := first.wait(st, held)
	time.Sleep(200 * time.Millisecond) // so that it waits; if not, it looks first
	if err := other.Leave(t.Context(), other.Claim); err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	case <-time.After(20 * time.Second):
		t.Error("it was not notified")
	}
}
