package kvline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// open opens a session of a new engine on a store.
func open(t *testing.T, store kvline.Store, id string) driver.Session {
	t.Helper()
	e := kvline.New("memory", store, driver.Volatile)
	t.Cleanup(func() { e.Close() })
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func beat(t *testing.T, s driver.Session, live ...driver.Claim) []driver.Standing {
	t.Helper()
	out := make([]driver.Standing, len(live))
	if err := s.Beat(t.Context(), live, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// awaited returns when an Await that begins now has found its claim held; 0: it has not,
// within limit.
func awaited(t *testing.T, s driver.Session, c driver.Claim, last driver.Standing, limit time.Duration) <-chan time.Time {
	t.Helper()
	at := make(chan time.Time, 1)
	go func() {
		defer close(at)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		st, err := last, error(nil)
		for err == nil && !st.Held && !st.Gone {
			st, err = s.Await(ctx, c, st)
		}
		if err == nil && st.Held {
			at <- time.Now()
		}
	}()
	return at
}

// deaf is a store that loses every notice.
type deaf struct{ *memory }

func (deaf) Notify(string, string) {}

func TestABeatThatFindsAMissedTurnEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deaf{newMemory()}
		holder, waiter := open(t, store, "one"), open(t, store, "two")
		enter(t, holder, queued("holder"))
		at := awaited(t, waiter, queued("waiter"), enter(t, waiter, queued("waiter")), 2*ttl)
		time.Sleep(ttl / 4)
		beat(t, holder, queued("holder"))
		beat(t, waiter, queued("waiter"))
		if err := holder.Leave(t.Context(), queued("holder")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 4)
		sent := time.Now()
		if out := beat(t, waiter, queued("waiter")); !out[0].Held {
			t.Fatalf("%+v", out)
		}
		if took := (<-at).Sub(sent); took < 0 || took > time.Second {
			t.Errorf("the wait ended %v after the beat", took)
		}
	})
}
