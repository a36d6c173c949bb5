package driverkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func claimed(id string, try int) driver.Claim { return driver.Claim{ID: id, Try: try, Name: "n"} }

func TestTheTableHasTheHighestTry(t *testing.T) {
	for _, c := range []struct {
		what  string
		calls func(add func(try int), end func(try int))
		want  int // the try that is in the table; 0: none
		state string
	}{
		{"added", func(add, _ func(int)) { add(1) }, 1, "first"},
		{"repeated", func(add, _ func(int)) { add(1); add(1) }, 1, "first"},
		{"a higher try", func(add, _ func(int)) { add(1); add(2) }, 2, "second"},
		{"a late one", func(add, _ func(int)) { add(2); add(1) }, 2, "first"},
		{"ended", func(add, end func(int)) { add(1); end(1) }, 0, ""},
		{"ended twice", func(add, end func(int)) { add(1); end(1); end(1) }, 0, ""},
		{"ended by a higher try", func(add, end func(int)) { add(1); end(2) }, 0, ""},
		{"not ended by a lower try", func(add, end func(int)) { add(1); add(2); end(1) }, 2, "second"},
	} {
		claims, states := driverkit.NewClaims[string](), []string{"first", "second"}
		c.calls(func(try int) {
			p, err := claims.Add(t.Context(), claimed("a", try), states[0])
			if err != nil || p.Claim.Try != try {
				t.Errorf("%s: try %d is answered with %+v, %v", c.what, try, p, err)
			}
			states = states[1:]
		}, func(try int) { claims.End(claimed("a", try)) })
		for try := 1; try <= 2; try++ {
			p := claims.Find("a", try)
			if (p != nil) != (try == c.want) || p != nil && p.State != c.state {
				t.Errorf("%s: for try %d the table has %+v", c.what, try, p)
			}
			if found := claims.With("a", try, func(p *driverkit.Claimed[string]) { p.State = "changed" }); found != (try == c.want) {
				t.Errorf("%s: With(%d) is %v", c.what, try, found)
			}
		}
	}
}

func TestAClosedTableTakesNothing(t *testing.T) {
	claims := driverkit.NewClaims[int]()
	for _, id := range []string{"a", "b"} {
		if _, err := claims.Add(t.Context(), claimed(id, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := claims.Begin(t.Context()); err != nil || claims.Closed() {
		t.Errorf("open: %v, closed is %v", err, claims.Closed())
	}
	if left := claims.Close(); len(left) != 2 {
		t.Errorf("%v are left of two", left)
	}
	claims.End(claimed("a", 1))
	if left := claims.Close(); !slices.Equal(left, []driver.Claim{claimed("b", 1)}) {
		t.Errorf("after one was ended, %v are left", left)
	}
	<-claims.Ended()
	if _, err := claims.Add(t.Context(), claimed("c", 1), 0); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Add to a closed table: %v", err)
	}
	if err := claims.Begin(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Begin of a closed table: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := claims.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin under a ctx that has ended: %v", err)
	}
}

func TestTheEndOfAClaimWakesItsAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims, f := driverkit.NewClaims[int](), newFakeSession()
		p, err := claims.Add(t.Context(), claimed("a", 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		a := await(t.Context(), f, &p.Waiter, nil)
		f.answers(driver.Standing{Gone: true})
		claims.End(claimed("a", 1))
		synctest.Wait()
		if !a.done || !a.st.Gone {
			t.Errorf("returned %v, %+v", a.done, a.st)
		}
	})
}

func TestWaitersAreWokenByClaimAndByName(t *testing.T) {
	var all driverkit.Waiters
	one, two, other := claimed("1", 1), claimed("2", 1), driver.Claim{ID: "3", Name: "m"}
	waiters := map[string]*driverkit.Waiter{"1": {}, "2": {}, "3": {}}
	for _, c := range []driver.Claim{one, two, other} {
		all.Add(c, waiters[c.ID])
	}
	if ids, names := all.IDs("n"), all.Names(); len(ids) != 2 || len(names) != 2 {
		t.Errorf("%v wait for n, and names are %v", ids, names)
	}
	if elsewhere := all.Wake("1", "4", "3"); !slices.Equal(elsewhere, []string{"4"}) {
		t.Errorf("%v wait elsewhere", elsewhere)
	}
	all.WakeName("n")
	all.Remove(one, &driverkit.Waiter{}) // an earlier one
	all.Remove(other, waiters["3"])
	if all.Find("1") != waiters["1"] || all.Find("3") != nil || len(all.Names()) != 1 {
		t.Errorf("after two were removed: %v, %v, %v", all.Find("1"), all.Find("3"), all.Names())
	}
}

func TestWatchersAreToldOfDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		w := driverkit.Watchers{
			First: func(name string) { calls = append(calls, "first "+name) },
			Last:  func(name string) { calls = append(calls, "last "+name) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		one, two := w.Watch(ctx, "n", 5), w.Watch(t.Context(), "n", 6)
		w.Notify("m")
		w.Departed("n", 5)
		w.Departed("n", 6)
		w.Departed("n", 6)
		if len(one) != 1 || len(two) != 1 { // one of 5 was told of 6; two of 5, which is another number
			t.Errorf("%d and %d notices", len(one), len(two))
		}
		w.Notify("n")
		if len(one) != 1 || len(two) != 1 {
			t.Errorf("%d and %d notices: several departures are told as one", len(one), len(two))
		}
		cancel()
		time.Sleep(time.Second)
		<-one
		if _, open := <-one; open {
			t.Error("open after the end of ctx")
		}
		if !slices.Equal(w.Names(), []string{"n"}) || !slices.Equal(calls, []string{"first n"}) {
			t.Errorf("names %v, calls %v", w.Names(), calls)
		}
		ctx, cancel = context.WithCancel(t.Context())
		w.Watch(ctx, "m", 0)
		cancel()
		time.Sleep(time.Second)
		if !slices.Equal(calls, []string{"first n", "first m", "last m"}) {
			t.Errorf("calls %v", calls)
		}
	})
}
