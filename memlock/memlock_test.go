package memlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

func TestLaws(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Open:   func(*testing.T) driver.Engine { return memlock.New() },
		Around: synctest.Test,
		MinTTL: time.Second,
		Clean: func(_ *testing.T, e driver.Engine) error {
			synctest.Wait() // a watch that has just ended is being taken out
			if lines, watchers, records := e.(*memlock.Engine).Size(); lines+watchers+records > 0 {
				return fmt.Errorf("%d lines, %d watchers, %d records", lines, watchers, records)
			}
			return nil
		},
	})
}

func TestAURLOpensANewEngine(t *testing.T) {
	open, ok := driver.Lookup("mem")
	if !ok {
		t.Fatal("mem: is not registered")
	}
	one, err := open(t.Context(), &url.URL{Scheme: "mem"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := open(t.Context(), &url.URL{Scheme: "mem"})
	if err != nil {
		t.Fatal(err)
	}
	if one == two {
		t.Error("two URLs share one engine")
	}
	if _, err := open(t.Context(), &url.URL{Scheme: "mem", RawQuery: "ttl=1s"}); err == nil || !strings.Contains(err.Error(), "ttl") {
		t.Errorf("an unknown parameter: %v", err)
	}
}

func TestAClosedEngineGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memlock.New()
		holder, waiter := open(t, e), open(t, e)
		if st, err := holder.Enter(t.Context(), claim("a")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		c := claim("b")
		last, err := waiter.Enter(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := waiter.Await(context.Background(), c, last)
			done <- err
		}()
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, driver.ErrGone) {
			t.Errorf("Await of a closed engine: %v, not ErrGone", err)
		}
		if _, err := holder.Enter(t.Context(), claim("c")); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Enter in a closed engine: %v, not ErrGone", err)
		}
		if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second}); err == nil {
			t.Error("a closed engine opens a session")
		}
		if err := e.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// No goroutine waits for expiries: the next call on the line finds them.
func TestACallThatFindsAnExpiredClaimWakesItsAwaitAndTheWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memlock.New()
		holder := open(t, e)
		brief, err := e.Open(t.Context(), driver.SessionOptions{ID: "brief", TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := holder.Enter(t.Context(), claim("a")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		c := claim("b")
		last, err := brief.Enter(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		departures, err := e.Watch(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan driver.Standing, 1)
		go func() {
			st, _ := brief.Await(ctx, c, last)
			told <- st
		}()
		time.Sleep(2 * time.Second)
		if line, err := e.Line(t.Context(), c.Name); err != nil || len(line) != 1 {
			t.Fatal(line, err)
		}
		synctest.Wait()
		select {
		case st := <-told:
			if !st.Gone {
				t.Errorf("Await of an expired claim: %+v", st)
			}
		default:
			t.Error("the claim has expired, and its Await still waits")
		}
		select {
		case <-departures:
		default:
			t.Error("the claim has expired, and watchers are not notified")
		}
	})
}

// One client finds a node that may vote again, but its Rejoin is slow. Another client's
// Rejoin comes first; then the node loses its data once more.
func TestALateRejoinIsRefusedIfTheNodeHasLostItsDataSince(t *testing.T) {
	e := memlock.New()
	enlist := func() driver.Voter {
		v := open(t, e).(driver.Voter)
		if _, err := v.Enlist(t.Context(), "list"); err != nil {
			t.Fatal(err)
		}
		return v
	}
	slow := enlist()
	if err := enlist().Rejoin(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	e.Forget()
	enlist()
	if err := slow.Rejoin(t.Context(), 1, 2); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("%v, not ErrConflict", err)
	}
	if e.Votes() {
		t.Error("the node votes although it has just lost its data")
	}
}

func TestEndedRecordsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memlock.New()
		for i := range 5000 {
			if _, err := e.Store(t.Context(), fmt.Sprint(i), []byte("x"), 0, time.Millisecond); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if _, _, records := e.Size(); records > 1024 {
			t.Errorf("%d records are remembered, one has not ended", records)
		}
	})
}

func TestAStoredValueIsACopy(t *testing.T) {
	e := memlock.New()
	mine := []byte("value")
	if _, err := e.Store(t.Context(), "key", mine, 0, 0); err != nil {
		t.Fatal(err)
	}
	mine[0] = 'X'
	got, _, err := e.Load(t.Context(), "key")
	if err != nil || string(got) != "value" {
		t.Fatalf("%q, %v", got, err)
	}
	got[0] = 'Y'
	if again, _, _ := e.Load(t.Context(), "key"); string(again) != "value" {
		t.Errorf("a loaded value can be written to: %q", again)
	}
}

func open(t *testing.T, e *memlock.Engine) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(id string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}
}
