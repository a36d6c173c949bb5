package quorum_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// comesBack enters a claim, ends it while that is under way, and expects Enter to
// find out.
func comesBack(t *testing.T, s driver.Session, end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	begun, done := time.Now(), make(chan time.Duration, 1)
	go func() {
		_, _ = s.Enter(ctx, mutex("aa", "name"))
		done <- time.Since(begun)
	}()
	time.Sleep(time.Millisecond / 4)
	end()
	if took := <-done; took > 5*time.Second {
		t.Errorf("Enter came back after %v", took)
	}
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
		comesBack(t, p, func() { _ = p.Close(t.Context()) })
	})
}

func TestEnterComesBackWhenItIsConfirmedAndNobodyWantsItAnyMore(t *testing.T) {
	for how, end := range map[string]func(context.Context, driver.Session) error{
		"left":   func(ctx context.Context, s driver.Session) error { return s.Leave(ctx, mutex("aa", "name")) },
		"closed": func(ctx context.Context, s driver.Session) error { return s.Close(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
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
				comesBack(t, s, func() { _ = end(t.Context(), s) }) // what it says is of no interest
			})
		})
	}
}

func TestOfThreeNodesASilentOneDoesNotHoldUpARefusal(t *testing.T) {
	pollOf(t, 3, func(t *testing.T, p *polled) {
		first, rest := p.preferred(t, "name")
		p.occupy(t, "name", first[0], rest[0])
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

func TestANodeThatHasBeenSilentIsNotWaitedForAgain(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, rest := p.preferred(t, "name")
		p.occupy(t, "name", first[1], rest[1])
		defer p.mute(first[2])()
		p.refused(t, mutex("aa", "name")) // this one waits
		time.Sleep(time.Second)
		atOnce(t, func() { p.refused(t, mutex("cc", "name")) })
	})
}

func TestARefusalAmongFailuresIsAFailure(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, rest := p.preferred(t, "name")
		p.occupy(t, "name", first[0])
		for _, i := range []int{first[1], first[2], rest[0]} {
			p.let(i, func(string) error { return driver.ErrUnreachable })
		}
		p.let(rest[1], func(string) error { // until the call's limit
			time.Sleep(2 * time.Second)
			return context.DeadlineExceeded
		})
		if st, err := p.Enter(t.Context(), mutex("aa", "name")); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%+v, %v; one of five has answered", st, err)
		}
	})
}
