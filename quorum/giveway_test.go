package quorum_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// pollOf runs a test like poll, on n nodes.
func pollOf(t *testing.T, n int, test func(t *testing.T, p *polled)) {
	synctest.Test(t, func(t *testing.T) {
		p := &polled{asked: map[string][]int{}, does: map[int]func(string) error{}}
		p.mem, p.all = hook(n, func(i int, op string, _ *driver.Claim) error {
			p.mu.Lock()
			p.asked[op] = append(p.asked[op], i)
			does := p.does[i]
			p.mu.Unlock()
			if does != nil {
				return does(op)
			}
			return nil
		})
		e := open(t, p.all)
		defer e.Close()
		p.Session = sessionOf(t, e, "s", 10*time.Second)
		test(t, p)
	})
}

func TestEnterComesBackWhenTheSessionIsClosedBeforeTheRestAreAsked(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, _ := p.preferred(t, "name")
		for _, i := range first {
			p.let(i, func(op string) error {
				if op == "enter" {
					time.Sleep(time.Millisecond / 2)
					return driver.ErrUnreachable
				}
				return nil
			})
		}
		begun := time.Now()
		done := make(chan time.Duration, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			_, _ = p.Enter(ctx, mutex("aa", "name"))
			done <- time.Since(begun)
		}()
		time.Sleep(time.Millisecond / 4)
		_ = p.Close(t.Context())
		if took := <-done; took > 5*time.Second {
			t.Errorf("Enter came back %v after Close", took)
		}
	})
}

func TestEnterComesBackWhenTheClaimIsLeftWhileItIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var denied atomic.Bool
		_, all := hook(5, func(i int, op string, c *driver.Claim) error {
			switch op {
			case "enter":
				c.Propose = uint64(time.Now().UnixMicro()) + uint64(i) // no two agree
			case "confirm":
				if denied.CompareAndSwap(false, true) { // the others do, and one more is needed
					time.Sleep(time.Millisecond / 2)
					return driver.ErrUnreachable
				}
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun, done := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, _ = s.Enter(ctx, mutex("aa", "name"))
			done <- time.Since(begun)
		}()
		time.Sleep(time.Millisecond / 4)
		_ = s.Leave(t.Context(), mutex("aa", "name"))
		if took := <-done; took > 5*time.Second {
			t.Errorf("Enter came back %v after Leave", took)
		}
	})
}

func TestEnterComesBackWhenTheSessionIsClosedWhileItIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var denied atomic.Bool
		_, all := hook(5, func(i int, op string, c *driver.Claim) error {
			switch op {
			case "enter":
				c.Propose = uint64(time.Now().UnixMicro()) + uint64(i) // no two agree
			case "confirm":
				if denied.CompareAndSwap(false, true) { // the others do, and one more is needed
					time.Sleep(time.Millisecond / 2)
					return driver.ErrUnreachable
				}
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun, done := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, _ = s.Enter(ctx, mutex("aa", "name"))
			done <- time.Since(begun)
		}()
		time.Sleep(time.Millisecond / 4)
		_ = s.Close(t.Context())
		if took := <-done; took > 5*time.Second {
			t.Errorf("Enter came back %v after Close", took)
		}
	})
}

func TestOfThreeNodesASilentOneDoesNotHoldUpARefusal(t *testing.T) {
	pollOf(t, 3, func(t *testing.T, p *polled) {
		c := mutex("f1", "name")
		p.enter(t, c)
		first := p.asks("enter")
		if err := p.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		rest := 0
		for slices.Contains(first, rest) {
			rest++
		}
		p.asks("leave")
		p.occupy(t, "name", first[0], rest)
		p.let(first[1], func(string) error { // until the call's limit
			time.Sleep(2 * time.Second)
			return context.DeadlineExceeded
		})
		begun := time.Now()
		st, err := p.Enter(t.Context(), mutex("aa", "name"))
		if took := time.Since(begun); err != nil || st.Held || took > 600*time.Millisecond {
			t.Errorf("%+v, %v after %v", st, err, took)
		}
	})
}

func TestTheRestAreNotAskedForATryThatWasReplaced(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		c := mutex("aa", "name")
		p.enter(t, c)
		time.Sleep(time.Millisecond / 2)
		c.Try = 2
		p.enter(t, c)
		if err := p.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		for i, m := range p.mem {
			for e := range m.List(t.Context(), "") {
				t.Errorf("node %d still has %+v", i, e)
			}
		}
	})
}

// One of five nodes does not answer, and each of two rivals is nearer to two of the
// others: they have to let go, and must not come back at the same time for ever.
func TestTwoRivalsGetPastEachOtherWhereANodeIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		near := map[string][]int{"aa": {1, 3}, "bb": {2, 4}}
		_, all := hook(5, func(i int, op string, c *driver.Claim) error {
			switch {
			case i == 0 && silent.Load():
				time.Sleep(2 * time.Second)
				return context.DeadlineExceeded
			case op == "enter" && !slices.Contains(near[c.ID], i):
				time.Sleep(100 * time.Microsecond)
			case op == "leave" && c.ID == "bb": // so they are never gone at the same time
				time.Sleep(700 * time.Microsecond)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		held := make(chan time.Duration, 2)
		start, begun := make(chan struct{}), time.Now()
		for id := range near {
			e := open(t, all)
			defer e.Close()
			s := sessionOf(t, e, id, 10*time.Second)
			go func() { // as the core does
				<-start
				for c := mutex(id, "name"); ctx.Err() == nil; c.Try++ {
					st, err := s.Enter(ctx, c)
					if err == nil && st.Held {
						held <- time.Since(begun)
						return
					}
					_, _ = s.Await(ctx, c, st)
				}
				held <- time.Hour
			}()
		}
		silent.Store(true)
		close(start)
		if took := min(<-held, <-held); took > 10*time.Second {
			t.Errorf("two rivals were in each other's way for %v", took)
		}
	})
}
