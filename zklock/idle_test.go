package zklock

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// The servers delete ten thousand empty containers a minute at most.
func TestLinesOfNamesThatNobodyUsesAreDeletedInFewRequests(t *testing.T) {
	t.Parallel()
	const names = 350
	e, n := counting(t, pathOf(t))
	e.idle.sweeping = true // the test sweeps
	s := open(t, e, time.Minute)
	cs := manyNames(names, 0, false)
	for _, c := range cs {
		hold(t, s, c)
		leave(t, s, c)
	}
	lines := func() int {
		t.Helper()
		all, err := e.names(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	e.sweepLines(t.Context())
	if left := lines(); left != names {
		t.Errorf("%d lines, and %d were in use just now", left, names)
	}
	inUse, usedSince := cs[7], cs[17]
	inUse.ID, usedSince.ID = newID(), newID()
	hold(t, s, inUse)
	hold(t, s, usedSince)
	leave(t, s, usedSince)
	n.take()
	e.sweepLines(t.Context())
	n.expect(t, "sweeping 350 lines", 5) // four batches; one again, without the line that is in use
	if left := lines(); left != 2 {
		t.Errorf("%d lines are left, not the one in use and the one that was", left)
	}
	leave(t, s, inUse)
	e.sweepLines(t.Context())
	e.sweepLines(t.Context())
	if left := lines(); left != 0 {
		t.Errorf("%d lines are left", left)
	}
	if more := e.sweepLines(t.Context()); more {
		t.Error("there is nothing to sweep")
	}
}

// Clients take names while their lines are deleted.
func TestClaimsEnterWhileLinesAreDeleted(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	e.idle.sweeping = true
	s := open(t, e, time.Minute)
	done := make(chan struct{})
	var sweeper, users sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				e.sweepLines(t.Context())
			}
		}
	})
	for i := range 8 {
		users.Go(func() {
			for range 60 {
				c := mutexOn(fmt.Sprint("job/", i%4)) // two users of each
				st, err := s.Enter(t.Context(), c)
				for err == nil && !st.Held && !st.Gone {
					st, err = s.Await(t.Context(), c, st)
				}
				if err == nil && st.Held {
					err = s.Leave(t.Context(), c)
				}
				if err != nil || st.Gone || errors.Is(err, driver.ErrGone) {
					t.Errorf("%+v, %v", st, err)
					return
				}
			}
		})
	}
	users.Wait()
	close(done)
	sweeper.Wait()
}
