package driverkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

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
			p, _, err := claims.Add(t.Context(), claimed("a", try), states[0])
			if err != nil || p.Claim.Try != try {
				t.Errorf("%s: try %d is answered with %+v, %v", c.what, try, p, err)
			}
			states = states[1:]
		}, func(try int) { claims.End(claimed("a", try)) })
		if have, ok := claims.Current("a"); ok != (c.want != 0) || have.Try != c.want {
			t.Errorf("%s: the present try is %d, %v", c.what, have.Try, ok)
		}
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

func TestARefusedCallLeavesTheTableAsItWas(t *testing.T) {
	for _, c := range []struct {
		what       string
		first, try int // 0: no earlier call
		meanwhile  func(claims *driverkit.Claims[int])
		want       int
	}{
		{"the first call", 0, 1, nil, 0},
		{"a repetition", 1, 1, nil, 1},
		{"a higher try", 1, 2, nil, 1},
		{"a late one", 2, 1, nil, 2},
		{"ended meanwhile", 1, 2, func(claims *driverkit.Claims[int]) { claims.End(claimed("a", 2)) }, 0},
	} {
		claims := driverkit.NewClaims[int]()
		if c.first != 0 {
			if _, _, err := claims.Add(t.Context(), claimed("a", c.first), 0); err != nil {
				t.Fatal(err)
			}
		}
		p, before, err := claims.Add(t.Context(), claimed("a", c.try), 0)
		if err != nil {
			t.Fatal(err)
		}
		if c.meanwhile != nil {
			c.meanwhile(claims)
		}
		claims.Refused(p, before)
		for try := 1; try <= 2; try++ {
			if found := claims.Find("a", try) != nil; found != (try == c.want) {
				t.Errorf("%s: try %d is in the table: %v", c.what, try, found)
			}
		}
	}
}

func TestAClosedTableTakesNothing(t *testing.T) {
	claims := driverkit.NewClaims[int]()
	for _, id := range []string{"a", "b"} {
		if _, _, err := claims.Add(t.Context(), claimed(id, 1), 0); err != nil {
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
	if _, _, err := claims.Add(t.Context(), claimed("c", 1), 0); !errors.Is(err, driver.ErrGone) {
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
		p, _, err := claims.Add(t.Context(), claimed("a", 1), 0)
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

func TestForgottenClaimsAreNotEndedByClose(t *testing.T) {
	claims := driverkit.NewClaims[string]()
	for _, id := range []string{"a", "b"} {
		if _, _, err := claims.Add(t.Context(), claimed(id, 1), ""); err != nil {
			t.Fatal(err)
		}
	}
	claims.Clear()
	if left := claims.Close(); len(left) != 0 {
		t.Errorf("Close returns %v", left)
	}
}
