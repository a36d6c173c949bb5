package kvline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// A client has many claims far behind in a line. Those that are to look again do not read it
// one by one; one that was told that it was ended does.
func TestClaimsFarBehindReadTheirLineTogether(t *testing.T) {
	const n = 400
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		holder, s := open(t, store, "holder"), open(t, store, "one")
		enter(t, holder, queued("holder"))
		all := make([]driver.Claim, n)
		for i := range all {
			all[i] = queued(fmt.Sprint("claim", i))
			enter(t, s, all[i])
		}
		look := func(i int) driver.Standing {
			st, err := s.(driverkit.Backend).Look(t.Context(), all[i])
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		for range 3 {
			time.Sleep(ttl * 2 / 3)
			beat(t, holder, queued("holder"))
			beat(t, s, all...)
			store.take()
			for i := range all {
				if st := look(i); st.Held || st.Gone || st.Ahead != i+1 || st.Holder == nil || st.Holder.ID != "holder" || st.Pause <= 0 {
					t.Fatalf("claim %d: %+v", i, st)
				}
			}
			if reads := store.take()["Get line"]; reads == 0 || reads > 16 {
				t.Errorf("%d claims read their line %d times", n, reads)
			}
		}
		e := kvline.New("memory", store, driver.Volatile)
		defer e.Close()
		line, err := e.Line(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Evict(t.Context(), line[n]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := look(n - 1); !st.Gone {
			t.Errorf("a claim that was evicted: %+v", st)
		}
	})
}
