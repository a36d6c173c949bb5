package sqllock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// To stand behind a holder is one request after the one that found the name taken.
func TestABusyNameCostsTwoRoundTrips(t *testing.T) {
	r := pushed(t)
	p, name := faultproxy.New(t, r.addr), nameOf(t)
	hold(t, openSession(t, r.engine(t), time.Minute), mutex(name))
	s := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute)
	const warm, visits = 5, 20
	trips, last := 0, time.Now()
	for n := 0; n < warm+visits; n++ {
		c, before := mutex(name), p.Forwarded(faultproxy.ToServer)
		if st := enter(t, s, c); st.Held || st.Ahead != 1 || st.Holder == nil || st.Valid != s.TTL() {
			t.Fatalf("behind a holder: %+v", st)
		}
		switch {
		case time.Since(last) > 500*time.Millisecond:
			n-- // a connection that was idle for a second is pinged before it is used
		case n >= warm:
			trips += p.Forwarded(faultproxy.ToServer) - before
		}
		last = time.Now()
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if trips != 2*visits {
		t.Errorf("%d requests for %d visits", trips, visits)
	}
}

// An Enter is sent again while the first is under way, and both wait for the row.
func TestAClaimThatEntersTwiceAtOnceStandsOnce(t *testing.T) {
	r := pushed(t)
	name := nameOf(t)
	hold(t, openSession(t, r.engine(t), time.Minute), mutex(name))
	s, c := openSession(t, r.engine(t), time.Minute), mutex(name)
	tx, err := r.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM pawl_head WHERE name LIKE $1 FOR UPDATE", "%"+name); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if st, err := s.Enter(t.Context(), c); err != nil || st.Held || st.Gone || st.Ahead != 1 {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // until they wait
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	if n := r.number(t, "SELECT count(*) FROM pawl_claim WHERE name LIKE ?", "%"+name); n != 1 {
		t.Errorf("it stands in line %d times", n)
	}
	if n := r.number(t, "SELECT waiting FROM pawl_head WHERE name LIKE ?", "%"+name); n != 1 {
		t.Errorf("%d are counted", n)
	}
}

// An Enter finds the expired claims in the line, and ends them.
func TestAnEnterDoesNotWaitBehindADeadProcess(t *testing.T) {
	r := pushed(t)
	name := nameOf(t)
	holder := openSession(t, r.engine(t), time.Minute)
	hold(t, holder, mutex(name))
	dead := openSession(t, r.engine(t), time.Second)
	for range 3 {
		enter(t, dead, mutex(name))
	}
	time.Sleep(dead.TTL() * 3 / 2)
	s, c := openSession(t, r.engine(t), time.Minute), mutex(name)
	if st := enter(t, s, c); st.Ahead != 1 {
		t.Errorf("behind the holder and three expired claims: %+v", st)
	}
	if n := r.number(t, "SELECT count(*) FROM pawl_claim WHERE name LIKE ?", "%"+name); n != 1 {
		t.Errorf("%d stand in line", n)
	}
}

// Tokens are those of the line, whichever way one came into it.
func TestAQueuedClaimHasTheNextToken(t *testing.T) {
	r := pushed(t)
	name := nameOf(t)
	s := openSession(t, r.engine(t), time.Minute)
	holds := mutex(name)
	last := hold(t, s, holds).Token
	for range 10 {
		next := mutex(name)
		waits := enter(t, s, next)
		if err := s.Leave(t.Context(), holds); err != nil {
			t.Fatal(err)
		}
		got := <-awaitHeld(t, s, next, waits)
		if got.Token <= last {
			t.Fatalf("token %d after %d", got.Token, last)
		}
		last, holds = got.Token, next
	}
	out := beatAll(t, s, holds)
	if out[0] != (driver.Standing{Held: true, Token: last, Valid: s.TTL()}) {
		t.Errorf("%+v", out[0])
	}
}
