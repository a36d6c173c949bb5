package driverkit_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

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

func TestAWaiterKnowsWhetherItWasWoken(t *testing.T) {
	var w driverkit.Waiter
	w.Notify()
	w.Suspect(time.Hour)
	if w.Woken() {
		t.Error("woken without a Wake")
	}
	if w.Wake(); !w.Woken() {
		t.Error("not woken by a Wake")
	}
}

// The subscription lasts from one Await to the next, and a notification in between finds
// no one to wake.
func TestAWaiterThatWasRemovedLooksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all driverkit.Waiters
		f, w := newFakeSession(), &driverkit.Waiter{}
		c := claimed("c", 1)
		all.Add(c, w)
		ctx, cancel := context.WithCancel(t.Context())
		await(ctx, f, w, nil)
		cancel()
		synctest.Wait()
		all.Remove(c, w)
		f.answers(held)
		all.WakeName(c.Name)
		all.Add(c, w)
		if a := await(t.Context(), f, w, nil); !a.done || !a.st.Held {
			t.Errorf("returned %v, %+v", a.done, a.st)
			close(f.ended)
		}
	})
}
