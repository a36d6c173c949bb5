package kvline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A crowd that gives up at once leaves with a few writes, and is not in the way of the holder.
func TestACrowdThatGivesUpAtOnceLeaves(t *testing.T) {
	const clients, trip = 200, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := newCounted(m)
		sessions := openAll(t, distant{store, trip}, clients)
		var all sync.WaitGroup
		for i, s := range sessions {
			if i == 1 {
				time.Sleep(trip) // the first one holds
			}
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		all.Wait()
		holder := ids(t, m)[0]
		begun := time.Now()
		store.take()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for i, s := range sessions {
			all.Go(func() {
				c := queued(fmt.Sprint("comes", i))
				if c.ID == holder {
					time.Sleep(trip / 4) // when they are on their way
				}
				if err := s.Leave(ctx, c); err != nil {
					t.Errorf("Leave of %s after %v: %v", c.ID, time.Since(begun), err)
				}
			})
		}
		all.Wait()
		if n := store.take()["Put line"]; n > clients/10 {
			t.Errorf("%d writes of the line", n)
		}
		if left := ids(t, m); len(left) > 0 {
			t.Errorf("%d are still in line", len(left))
		}
	})
}

// Who is granted the name while another is asked to take it out of the line gives it back itself.
func TestWhoIsGrantedTheNameWhileItLeavesGivesItBack(t *testing.T) {
	const trip = 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, distant{m, trip})
		var all sync.WaitGroup
		begun := time.Now()
		all.Go(func() {
			if err := sessions[0].Leave(t.Context(), queued("claim0")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(trip / 4)
		all.Go(func() {
			if err := sessions[1].Leave(t.Context(), queued("claim1")); err != nil {
				t.Error(err)
			}
		})
		var st driver.Standing
		var err error
		for err == nil && !st.Held && !st.Gone {
			st, err = sessions[2].Await(t.Context(), queued("claim2"), st)
		}
		if took := time.Since(begun); err != nil || !st.Held || took > 10*trip {
			t.Errorf("%+v, %v after %v", st, err, took)
		}
		all.Wait()
	})
}

// Who is asked may never answer.
func TestWhoIsNotTakenOutOfTheLineLeavesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, dropping(m, "leave"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := sessions[6].Leave(ctx, queued("claim6")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave whose ctx ends: %v", err)
		}
		begun := time.Now()
		if err := sessions[5].Leave(t.Context(), queued("claim5")); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("Leave: %v after %v", err, time.Since(begun))
		}
		if err := sessions[6].Leave(t.Context(), queued("claim6")); err != nil {
			t.Errorf("Leave again: %v", err)
		}
		if line := ids(t, m); len(line) != 16 {
			t.Errorf("in line: %v", line)
		}
	})
}

// A question that comes late does not end what was entered since.
func TestALateQuestionToLeaveEndsNoLaterTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := dropping(m, "leave")
		sessions := longLine(t, store)
		if err := sessions[5].Leave(t.Context(), queued("claim5")); err != nil {
			t.Fatal(err)
		}
		again := queued("claim5")
		again.Try = 2
		enter(t, sessions[5], again)
		store.send()
		time.Sleep(time.Second)
		if line := ids(t, m); len(line) != 18 || line[17] != "claim5" {
			t.Errorf("in line: %v", line)
		}
	})
}
