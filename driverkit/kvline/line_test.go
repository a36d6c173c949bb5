package kvline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

const ttl = 10 * time.Second

func queued(id string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}
}

// withSessions runs a test in a bubble, with sessions of an engine each on one store.
func withSessions(t *testing.T, n int, test func(t *testing.T, sessions []driver.Session)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var all []driver.Session
		for i := range n {
			e := kvline.New("memory", &client{memory: m}, driver.Volatile)
			defer e.Close()
			s, err := e.Open(t.Context(), driver.SessionOptions{ID: fmt.Sprint("session", i), TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		test(t, all)
	})
}

func enter(t *testing.T, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Both claims are prolonged by one write, whose time no one knows yet.
func TestAWaiterBehindAClaimThatWasJustProlongedLooksLater(t *testing.T) {
	withSessions(t, 1, func(t *testing.T, all []driver.Session) {
		s := all[0]
		enter(t, s, queued("holder"))
		enter(t, s, queued("waiter"))
		time.Sleep(ttl / 4)
		out := make([]driver.Standing, 2)
		if err := s.Beat(t.Context(), []driver.Claim{queued("holder"), queued("waiter")}, out); err != nil {
			t.Fatal(err)
		}
		if !out[0].Held || out[1].Held || out[1].Pause < ttl/2 {
			t.Errorf("%+v", out)
		}
	})
}

// The write that ends the dead holder's claim grants the next and enters a third.
func TestAHoldThatBeginsWithAWriteBeginsNow(t *testing.T) {
	withSessions(t, 3, func(t *testing.T, all []driver.Session) {
		enter(t, all[0], queued("dead"))
		time.Sleep(ttl / 2)
		enter(t, all[1], queued("next"))
		beat(t, all[1])
		time.Sleep(ttl/2 + time.Second)
		st := enter(t, all[2], queued("third"))
		if st.Held || st.Ahead != 1 || st.Holder == nil || st.Holder.ID != "next" || st.Holder.Since > time.Second {
			t.Errorf("%+v, holder %+v", st, st.Holder)
		}
	})
}

// A write of which the answer was lost is found by the call that repeats it.
func TestALostAnswerIsSettledByTheNextCall(t *testing.T) {
	withSessions(t, 2, func(t *testing.T, all []driver.Session) {
		kvline.StoreOf(all[0]).(*client).loseAnswer()
		if _, err := all[0].Enter(t.Context(), queued("first")); err == nil {
			t.Fatal("no error")
		}
		st := enter(t, all[0], queued("first"))
		if !st.Held {
			t.Fatalf("%+v", st)
		}
		token := st.Token
		kvline.StoreOf(all[0]).(*client).loseAnswer()
		if err := all[0].Leave(t.Context(), queued("first")); err == nil {
			t.Fatal("no error")
		}
		if st := enter(t, all[1], queued("second")); !st.Held || st.Token <= token {
			t.Errorf("%+v after token %d", st, token)
		}
	})
}

// A's first Enter is delayed and repeated, and the repeat is granted and evicted. B holds
// and leaves. When the store has forgotten the deletion, the first Enter arrives and is
// carried out: that is another grant, which A's Beat must not take for its own.
func TestALateEnterIsNotTheGrantThatWasEvicted(t *testing.T) {
	withSessions(t, 2, func(t *testing.T, all []driver.Session) {
		a, b := all[0], all[1]
		store := kvline.StoreOf(a).(*client)
		store.forgets, kvline.StoreOf(b).(*client).forgets = true, true
		deliver := store.delay()
		if _, err := a.Enter(t.Context(), queued("a")); err == nil {
			t.Fatal("no error")
		}
		granted := enter(t, a, queued("a"))
		admin := kvline.New("memory", store, driver.Volatile)
		defer admin.Close()
		line, err := admin.Line(t.Context(), "name")
		if err != nil || len(line) != 1 {
			t.Fatal(line, err)
		}
		if err := admin.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		if st := enter(t, b, queued("b")); !st.Held {
			t.Fatalf("%+v", st)
		}
		if err := b.Leave(t.Context(), queued("b")); err != nil {
			t.Fatal(err)
		}
		if err := deliver(); err != nil {
			t.Fatal(err)
		}
		out := make([]driver.Standing, 1)
		if err := a.Beat(t.Context(), []driver.Claim{queued("a")}, out); err != nil || !out[0].Gone {
			t.Errorf("Beat: %+v, %v of token %d", out[0], err, granted.Token)
		}
		if line, err := admin.Line(t.Context(), "name"); err != nil || len(line) > 0 {
			t.Errorf("left in line: %+v, %v", line, err)
		}
	})
}
