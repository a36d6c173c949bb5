package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// forgets lets 1000 claims enter a name that another claim holds and a third one waits
// for, calls visit for each, and fails if the watch of the name remembers more than most.
func forgets(t *testing.T, most int, visit func(t *testing.T, s driver.Session, c driver.Claim, st driver.Standing)) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, nodes(3))
		defer e.Close()
		s := sessionOf(t, e, "s", time.Minute)
		if st, err := s.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for c := mutex("bb", "name"); ctx.Err() == nil; c.Try++ {
				st, _ := s.Enter(ctx, c)
				_, _ = s.Await(ctx, c, st)
			}
		}()
		synctest.Wait()
		for k := range 1000 {
			c := mutex(fmt.Sprintf("%08x", k), "name")
			st, err := s.Enter(t.Context(), c)
			if err != nil || st.Held {
				t.Fatal(st, err)
			}
			visit(t, s, c, st)
		}
		if n := e.Waiters("name"); n > most {
			t.Errorf("the watch remembers %d claims, one waits", n)
		}
	})
}

func TestAWatchForgetsClaimsThatOnlyTried(t *testing.T) {
	forgets(t, 100, func(t *testing.T, s driver.Session, c driver.Claim, _ driver.Standing) { _ = s.Leave(t.Context(), c) })
}

// A caller whose ctx ends between Await and Enter calls neither again.
func TestAWatchForgetsClaimsThatGaveUp(t *testing.T) {
	forgets(t, 500, func(t *testing.T, s driver.Session, c driver.Claim, st driver.Standing) {
		_, _ = s.Await(t.Context(), c, st)
		time.Sleep(50 * time.Millisecond)
	})
}
