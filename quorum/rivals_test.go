package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
)

// returnsSoon fails if an Enter does not return soon after end was called meanwhile.
func returnsSoon(t *testing.T, s driver.Session, end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	start, done := time.Now(), make(chan time.Duration, 1)
	go func() {
		_, _ = s.Enter(ctx, mutex("aa", "name"))
		done <- time.Since(start)
	}()
	time.Sleep(time.Millisecond / 4)
	end()
	if took := <-done; took > 5*time.Second {
		t.Errorf("Enter came back after %v", took)
	}
}

func TestEnterReturnsWhenTheSessionIsClosedBeforeTheRestAreAsked(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, _ := r.split(t, "name")
		for _, i := range first {
			r.hook(i, func(op string) error {
				if op == "enter" {
					time.Sleep(time.Millisecond / 2)
					return driver.ErrUnreachable
				}
				return nil
			})
		}
		returnsSoon(t, r, func() { _ = r.Close(t.Context()) })
	})
}

func TestEnterReturnsWhenItsClaimEndsDuringTheConfirmation(t *testing.T) {
	for how, end := range map[string]func(context.Context, driver.Session) error{
		"left":   func(ctx context.Context, s driver.Session) error { return s.Leave(ctx, mutex("aa", "name")) },
		"closed": func(ctx context.Context, s driver.Session) error { return s.Close(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var denied atomic.Bool
				_, all := hookNodes(5, func(i int, op string, c *driver.Claim) error {
					switch op {
					case "enter":
						c.Propose = uint64(time.Now().UnixMicro()) + uint64(i) // no two nodes grant the same token
					case "confirm":
						if denied.CompareAndSwap(false, true) { // the others confirm, and one more is needed
							time.Sleep(time.Millisecond / 2)
							return driver.ErrUnreachable
						}
					}
					return nil
				})
				e := open(t, all)
				defer e.Close()
				s := sessionOf(t, e, "s", 10*time.Second)
				returnsSoon(t, s, func() { _ = end(t.Context(), s) })
			})
		})
	}
}

func TestOfThreeNodesASilentOneDoesNotHoldUpARefusal(t *testing.T) {
	withRigOf(t, 3, func(t *testing.T, r *rig) {
		first, rest := r.split(t, "name")
		r.occupy(t, "name", first[0], rest[0])
		r.hook(first[1], func(string) error { // until the call's limit
			time.Sleep(2 * time.Second)
			return context.DeadlineExceeded
		})
		start := time.Now()
		st, err := r.Enter(t.Context(), mutex("aa", "name"))
		if took := time.Since(start); err != nil || st.Held || took > 600*time.Millisecond {
			t.Errorf("%+v, %v after %v", st, err, took)
		}
	})
}

// Of four nodes two refusals decide. The third node that was asked gets the Enter late,
// when the holder has left there, and grants it until the Leave behind it arrives. The
// fourth has not got the holder's Leave by then.
func TestAClaimThatWasRefusedDoesNotRefuseTheNextOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order atomic.Pointer[[]int] // of the nodes
		_, all := hookNodes(4, func(i int, op string, c *driver.Claim) error {
			switch o := order.Load(); {
			case c == nil || o == nil:
			case i == (*o)[2] && c.ID == "bb":
				time.Sleep(3 * time.Millisecond)
			case i == (*o)[3] && c.ID == "aa" && op == "leave":
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		e, rivals := open(t, all), open(t, all)
		defer e.Close()
		defer rivals.Close()
		s, rival := sessionOf(t, e, "s", 10*time.Second), sessionOf(t, rivals, "r", 10*time.Second)
		held := mutex("aa", "name")
		if st, err := rival.Enter(t.Context(), held); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		time.Sleep(2 * time.Millisecond) // then it is at every node
		nodes := quorum.Order(s, "name")
		order.Store(&nodes)
		if st, err := s.Enter(t.Context(), mutex("bb", "name")); err != nil || st.Held {
			t.Fatal(st, err)
		}
		if err := rival.Leave(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond) // the third node has granted the late Enter
		if st, err := s.Enter(t.Context(), mutex("cc", "name")); err != nil || !st.Held {
			t.Error(st, err)
		}
	})
}

// Rivals have a node each, so no one holds the name.
func TestSplitVotesAreAskedForAgain(t *testing.T) {
	for _, f := range []struct {
		name      string
		nodes     int
		granted   int           // nodes without a rival
		departure time.Duration // when all rivals leave
		held      bool
	}{
		{"both leave", 4, 2, time.Millisecond, true},
		{"both stay", 4, 2, time.Minute, false},
		{"four leave", 5, 1, time.Millisecond, true},
		{"four stay", 5, 1, time.Minute, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			withRigOf(t, f.nodes, func(t *testing.T, r *rig) {
				first, rest := r.split(t, "name")
				for k, i := range append(first, rest...)[f.granted:] {
					id := fmt.Sprintf("b%d", k)
					s := sessionOf(t, r.mem[i], id, time.Hour)
					if st, err := s.Enter(t.Context(), mutex(id, "name")); err != nil || !st.Held {
						t.Fatal(st, err)
					}
					time.AfterFunc(f.departure, func() { _ = s.Leave(context.Background(), mutex(id, "name")) })
				}
				e := open(t, r.all)
				defer e.Close()
				c := pawl.New(e)
				defer c.Close()
				start := time.Now()
				l, err := c.Mutex("name").TryLock(t.Context())
				if took := time.Since(start); took > time.Second || (err == nil) != f.held || !f.held && !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("%v after %v", err, took)
				}
				if err == nil { // a Leave of the votes that were split may still be on its way: it must not end this
					if line, err := e.Line(t.Context(), "name"); err != nil || len(line) != 1 || line[0].ID != l.ID() || line[0].Try < 2 {
						t.Errorf("%+v, %v", line, err)
					}
				}
			})
		})
	}
}

func TestTheRestAreNotAskedForATryThatWasReplaced(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		c := mutex("aa", "name")
		r.enter(t, c)
		time.Sleep(time.Millisecond / 2)
		c.Try = 2
		r.enter(t, c)
		if err := r.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		for i, m := range r.mem {
			for e := range m.List(t.Context(), "") {
				t.Errorf("node %d still has %+v", i, e)
			}
		}
	})
}

// One of five nodes does not answer, and each of two rivals is closer to two of the
// others. Both must give up, and must not retry at the same time forever.
func TestOneOfTwoRivalsWinsWhileANodeIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		closeTo := map[string][]int{"aa": {1, 3}, "bb": {2, 4}}
		_, all := hookNodes(5, func(i int, op string, c *driver.Claim) error {
			switch {
			case i == 0 && silent.Load():
				time.Sleep(2 * time.Second)
				return context.DeadlineExceeded
			case op == "enter" && !slices.Contains(closeTo[c.ID], i):
				time.Sleep(100 * time.Microsecond)
			case op == "leave" && c.ID == "bb": // so that the rivals never leave at the same time
				time.Sleep(700 * time.Microsecond)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		held := make(chan time.Duration, 2)
		begin, start := make(chan struct{}), time.Now()
		for id := range closeTo {
			e := open(t, all)
			defer e.Close()
			s := sessionOf(t, e, id, 10*time.Second)
			go func() { // as the core does
				<-begin
				for c := mutex(id, "name"); ctx.Err() == nil; c.Try++ {
					st, err := s.Enter(ctx, c)
					if err == nil && st.Held {
						held <- time.Since(start)
						return
					}
					_, _ = s.Await(ctx, c, st)
				}
				held <- time.Hour
			}()
		}
		silent.Store(true)
		close(begin)
		if took := min(<-held, <-held); took > 10*time.Second {
			t.Errorf("two rivals were in each other's way for %v", took)
		}
	})
}

func TestANodeThatHasBeenSilentIsNotWaitedForAgain(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, rest := r.split(t, "name")
		r.occupy(t, "name", first[1], rest[1])
		defer r.mute(first[2])()
		r.refused(t, mutex("aa", "name")) // this claim waits for the silent node
		time.Sleep(time.Second)
		atOnce(t, func() { r.refused(t, mutex("cc", "name")) })
	})
}

func TestOneRefusalAmongFailuresIsReportedAsAFailure(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, rest := r.split(t, "name")
		r.occupy(t, "name", first[0])
		for _, i := range []int{first[1], first[2], rest[0]} {
			r.hook(i, func(string) error { return driver.ErrUnreachable })
		}
		r.hook(rest[1], func(string) error { // until the call's limit
			time.Sleep(2 * time.Second)
			return context.DeadlineExceeded
		})
		if st, err := r.Enter(t.Context(), mutex("aa", "name")); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%+v, %v; one of five has answered", st, err)
		}
	})
}
