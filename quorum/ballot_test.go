package quorum_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A polled session has nodes that note who was asked what, and do as they are told.
type polled struct {
	driver.Session
	mem []*memlock.Engine
	all []quorum.Node

	mu    sync.Mutex // guards what follows
	asked map[string][]int
	does  map[int]func(op string) error
}

// poll runs a test on five nodes that have answered before.
func poll(t *testing.T, test func(t *testing.T, p *polled)) { pollOf(t, 5, test) }

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

// enter enters and expects a hold.
func (p *polled) enter(t *testing.T, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := p.Enter(t.Context(), c)
	if err != nil || !st.Held {
		t.Fatal(st, err)
	}
	return st
}

// atOnce expects that no time passes while do runs.
func atOnce(t *testing.T, do func()) {
	t.Helper()
	begun := time.Now()
	do()
	if took := time.Since(begun); took > 0 {
		t.Errorf("it took %v", took)
	}
}

// asks returns which nodes were asked since the last time, in their order.
func (p *polled) asks(op string) []int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := slices.Sorted(slices.Values(p.asked[op]))
	p.asked[op] = nil
	return asked
}

// let has a node do something ahead of every call, or nothing.
func (p *polled) let(i int, do func(op string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.does[i] = do
}

// preferred returns whom a claim of the name is asked of first, and who remains.
func (p *polled) preferred(t *testing.T, name string) (first, rest []int) {
	t.Helper()
	c := mutex("f1", name)
	p.enter(t, c)
	if first = p.asks("enter"); len(first) != len(p.all)/2+1 {
		t.Fatalf("nodes %v were asked at first, of %d", first, len(p.all))
	}
	if err := p.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i := range p.all {
		if !slices.Contains(first, i) {
			rest = append(rest, i)
		}
	}
	p.asks("leave")
	return first, rest
}

var all = []int{0, 1, 2, 3, 4}

func TestAShortHoldCostsAMajorityAlone(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		c := mutex("aa", "name")
		p.enter(t, c)
		first := p.asks("enter")
		if err := p.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if later := p.asks("enter"); len(first) != 3 || len(later) != 0 {
			t.Errorf("nodes %v were asked, later %v", first, later)
		}
		if left := p.asks("leave"); !slices.Equal(left, first) {
			t.Errorf("asked of %v, given back to %v", first, left)
		}
	})
}

func TestAHoldIsAtEveryNodeAMomentLater(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		c := mutex("aa", "name")
		token := p.enter(t, c).Token
		time.Sleep(2 * time.Millisecond)
		if asked := p.asks("enter"); !slices.Equal(asked, all) {
			t.Errorf("nodes %v were asked", asked)
		}
		p.mem[0].Forget()
		p.mem[1].Forget()
		out := make([]driver.Standing, 1)
		if err := p.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held || out[0].Token != token {
			t.Errorf("after the loss of two nodes: %+v, %v", out[0], err)
		}
		if err := p.Leave(t.Context(), c); err != nil {
			t.Error(err)
		}
		if left := p.asks("leave"); !slices.Equal(left, all) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestTheRestAreAskedAtOnceWhenOneDoesNotGrant(t *testing.T) {
	for how, does := range map[string]func(string) error{
		"it fails":     func(string) error { return errors.New("out of memory") },
		"it is silent": func(string) error { return driver.ErrNoVote },
	} {
		t.Run(how, func(t *testing.T) {
			poll(t, func(t *testing.T, p *polled) {
				first, _ := p.preferred(t, "name")
				p.let(first[1], does)
				atOnce(t, func() { p.enter(t, mutex("aa", "name")) })
				if asked := p.asks("enter"); !slices.Equal(asked, all) {
					t.Errorf("nodes %v were asked", asked)
				}
			})
		})
	}
	t.Run("a minority has stale holds", func(t *testing.T) {
		poll(t, func(t *testing.T, p *polled) {
			first, _ := p.preferred(t, "name")
			p.occupy(t, "name", first[0], first[2])
			atOnce(t, func() { p.enter(t, mutex("aa", "name")) })
		})
	})
}

func TestWhoIsRefusedAsksNobodyElse(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, _ := p.preferred(t, "name")
		p.enter(t, mutex("aa", "name"))
		p.asks("enter")
		rivals := open(t, p.all)
		defer rivals.Close()
		rival := sessionOf(t, rivals, "r", 10*time.Second)
		if st, err := rival.Enter(t.Context(), mutex("bb", "name")); err != nil || st.Held {
			t.Fatal(st, err)
		}
		if asked := p.asks("enter"); !slices.Equal(asked, first) {
			t.Errorf("%v hold it, and %v were asked", first, asked)
		}
		time.Sleep(time.Second)
		if asked := p.asks("enter"); len(asked) != 2 {
			t.Errorf("%v were asked later; two are the holder's", asked)
		}
	})
}

// occupy has somebody else hold the name at some nodes.
func (p *polled) occupy(t *testing.T, name string, at ...int) {
	t.Helper()
	for _, i := range at {
		if st, err := sessionOf(t, p.mem[i], "stale", time.Minute).Enter(t.Context(), mutex("bb", name)); err != nil || !st.Held {
			t.Fatal(st, err)
		}
	}
}

// mute has a node not answer until the returned function is called.
func (p *polled) mute(i int) (heal func()) {
	silent := make(chan struct{})
	p.let(i, func(string) error {
		<-silent
		return context.DeadlineExceeded
	})
	return func() { close(silent) }
}

// refused enters and expects to hear of somebody else, long before a call to a
// silent node would have failed.
func (p *polled) refused(t *testing.T, c driver.Claim) {
	t.Helper()
	begun := time.Now()
	st, err := p.Enter(t.Context(), c)
	if took := time.Since(begun); err != nil || st.Held || st.Holder == nil || took > 300*time.Millisecond {
		t.Errorf("%+v, %v after %v", st, err, took)
	}
}

func TestRivalsDoNotWaitForASilentNodeWithWhatTheOtherNeeds(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, rest := p.preferred(t, "name")
		p.occupy(t, "name", first[1], rest[1])
		defer p.mute(first[2])()
		p.refused(t, mutex("aa", "name"))
		if left := p.asks("leave"); !slices.Contains(left, first[0]) || !slices.Contains(left, rest[0]) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestWhoCannotWinLeavesTheRestToTheOther(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, _ := p.preferred(t, "name")
		p.occupy(t, "name", first[0], first[1])
		defer p.mute(first[2])()
		p.refused(t, mutex("aa", "name"))
		if asked := p.asks("enter"); !slices.Equal(asked, first) {
			t.Errorf("nodes %v were asked, %v were first", asked, first)
		}
	})
}

func TestASilentNodeCostsAMomentOnce(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, rest := p.preferred(t, "name")
		defer p.mute(first[0])()
		for i, most := range []time.Duration{time.Millisecond, 0, 0} {
			c := mutex("aa", "name")
			c.Try += i
			begun := time.Now()
			p.enter(t, c)
			if took := time.Since(begun); took > most {
				t.Errorf("lock %d was held after %v", i, took)
			}
			if err := p.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			p.asks("enter")
		}
		p.enter(t, mutex("bb", "name"))
		if asked, want := p.asks("enter"), []int{first[1], first[2], rest[0], rest[1]}; !isPart(asked, want) {
			t.Errorf("nodes %v were asked, where %d does not answer", asked, first[0])
		}
	})
}

func isPart(of, whole []int) bool {
	return len(of) == 3 && !slices.ContainsFunc(of, func(i int) bool { return !slices.Contains(whole, i) })
}

func TestAHoldThatAMajorityAloneHadIsLostWithOneOfThem(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, _ := p.preferred(t, "name")
		c := mutex("aa", "name")
		p.enter(t, c)
		p.mem[first[0]].Forget()
		if err := p.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("given back: %v; two of five held it", err)
		}
	})
}

func TestAHoldOfAMajorityAloneIsGivenBackWhenOneOfThemHasAnswered(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		first, _ := p.preferred(t, "name")
		c := mutex("aa", "name")
		p.enter(t, c)
		lost := func(string) error { return driver.ErrUnreachable }
		p.let(first[0], lost)
		p.let(first[2], lost)
		if err := p.Leave(t.Context(), c); err != nil {
			t.Error(err)
		}
		p.let(first[0], nil)
		p.let(first[2], nil)
		rivals := open(t, p.all)
		defer rivals.Close()
		if st, err := sessionOf(t, rivals, "r", time.Second).Enter(t.Context(), mutex("bb", "name")); err != nil || !st.Held {
			t.Errorf("a rival's: %+v, %v", st, err)
		}
	})
}

func TestAClaimThatNobodyKnowsIsGivenBackEverywhere(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		if err := p.Leave(t.Context(), mutex("aa", "name")); !errors.Is(err, driver.ErrGone) {
			t.Error(err)
		}
		if left := p.asks("leave"); !slices.Equal(left, all) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestClientsOfANameAskTheSameNodesFirst(t *testing.T) {
	poll(t, func(t *testing.T, p *polled) {
		reversed := slices.Clone(p.all)
		slices.Reverse(reversed)
		e := open(t, reversed)
		defer e.Close()
		other := &polled{Session: sessionOf(t, e, "o", 10*time.Second)}
		used := map[int]bool{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c := mutex("aa", name)
			p.enter(t, c)
			mine := p.asks("enter")
			if err := p.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			other.enter(t, c)
			if theirs := p.asks("enter"); !slices.Equal(mine, theirs) {
				t.Errorf("%s: %v here, %v there", name, mine, theirs)
			}
			if err := other.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			for _, i := range mine {
				used[i] = true
			}
		}
		if len(used) != 5 {
			t.Errorf("of five nodes only %v are used", used)
		}
	})
}
