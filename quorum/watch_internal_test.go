package quorum

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestANodeThatIsWatchedAgainIsNotCountedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := threeNodes(t)
		if err := e.Close(); err != nil { // the test reports for the nodes
			t.Fatal(err)
		}
		w := e.watches.start("name")
		for range 5 {
			w.setWatched(0, true)
			w.setWatched(0, false)
		}
		select {
		case <-w.ready:
			t.Error("one node of three was watched five times, and that counts as a majority")
		default:
		}
		w.setWatched(0, true)
		w.setWatched(1, true)
		select {
		case <-w.ready:
		default:
			t.Error("two nodes of three are watched, and that is no majority")
		}
	})
}

// A caller whose ctx ends between Await and Enter calls neither again.
func TestAWatchForgetsClaimsThatNeverReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := threeNodes(t)
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		claim := func(id string) driver.Claim { return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1} }
		if st, err := s.Enter(t.Context(), claim("aa")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		for k := range 1000 {
			c := claim(fmt.Sprintf("%08x", k))
			st, err := s.Enter(t.Context(), c)
			if err != nil || st.Held {
				t.Fatal(st, err)
			}
			if _, err := s.Await(t.Context(), c, st); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		w := e.watches.find("name")
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.waiters); n > 500 {
			t.Errorf("the watch remembers %d claims, none waits", n)
		}
	})
}
