package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var all = []int{0, 1, 2, 3, 4}

func TestAShortHoldAsksOnlyAMajority(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		c := mutex("aa", "name")
		r.enter(t, c)
		first := r.calls("enter")
		if err := r.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if later := r.calls("enter"); len(first) != 3 || len(later) != 0 {
			t.Errorf("nodes %v were asked, later %v", first, later)
		}
		if left := r.calls("leave"); !slices.Equal(left, first) {
			t.Errorf("asked of %v, given back to %v", first, left)
		}
	})
}

func TestAHoldIsAtEveryNodeAMomentLater(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		c := mutex("aa", "name")
		token := r.enter(t, c).Token
		time.Sleep(2 * time.Millisecond)
		if asked := r.calls("enter"); !slices.Equal(asked, all) {
			t.Errorf("nodes %v were asked", asked)
		}
		r.mem[0].Forget()
		r.mem[1].Forget()
		out := make([]driver.Standing, 1)
		if err := r.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held || out[0].Token != token {
			t.Errorf("after the loss of two nodes: %+v, %v", out[0], err)
		}
		if err := r.Leave(t.Context(), c); err != nil {
			t.Error(err)
		}
		if left := r.calls("leave"); !slices.Equal(left, all) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestTheRestAreAskedAtOnceWhenOneDoesNotGrant(t *testing.T) {
	for how, hook := range map[string]func(string) error{
		"it fails":         func(string) error { return errors.New("out of memory") },
		"it does not vote": func(string) error { return driver.ErrNoVote },
	} {
		t.Run(how, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				first, _ := r.split(t, "name")
				r.hook(first[1], hook)
				atOnce(t, func() { r.enter(t, mutex("aa", "name")) })
				if asked := r.calls("enter"); !slices.Equal(asked, all) {
					t.Errorf("nodes %v were asked", asked)
				}
			})
		})
	}
	t.Run("a minority has stale holds", func(t *testing.T) {
		withRig(t, func(t *testing.T, r *rig) {
			first, _ := r.split(t, "name")
			r.occupy(t, "name", first[0], first[2])
			atOnce(t, func() { r.enter(t, mutex("aa", "name")) })
		})
	})
}

func TestARefusedClaimAsksNoFurtherNodes(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, _ := r.split(t, "name")
		r.enter(t, mutex("aa", "name"))
		r.calls("enter")
		rivals := open(t, r.all)
		defer rivals.Close()
		rival := sessionOf(t, rivals, "r", 10*time.Second)
		if st, err := rival.Enter(t.Context(), mutex("bb", "name")); err != nil || st.Held {
			t.Fatal(st, err)
		}
		if asked := r.calls("enter"); !slices.Equal(asked, first) {
			t.Errorf("%v hold it, and %v were asked", first, asked)
		}
		time.Sleep(time.Second)
		if asked := r.calls("enter"); len(asked) != 2 {
			t.Errorf("%v were asked later; two are the holder's", asked)
		}
	})
}

func TestRivalsThatBlockEachOtherDoNotWaitForASilentNode(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, rest := r.split(t, "name")
		r.occupy(t, "name", first[1], rest[1])
		defer r.mute(first[2])()
		r.refused(t, mutex("aa", "name"))
		if left := r.calls("leave"); !slices.Contains(left, first[0]) || !slices.Contains(left, rest[0]) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestAClaimThatCannotWinLeavesTheRestToItsRival(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, _ := r.split(t, "name")
		r.occupy(t, "name", first[0], first[1])
		defer r.mute(first[2])()
		r.refused(t, mutex("aa", "name"))
		if asked := r.calls("enter"); !slices.Equal(asked, first) {
			t.Errorf("nodes %v were asked, %v were first", asked, first)
		}
	})
}

func TestASilentNodeDelaysOnlyTheFirstLock(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, rest := r.split(t, "name")
		defer r.mute(first[0])()
		for i, most := range []time.Duration{time.Millisecond, 0, 0} {
			c := mutex("aa", "name")
			c.Try += i
			start := time.Now()
			r.enter(t, c)
			if took := time.Since(start); took > most {
				t.Errorf("lock %d was held after %v", i, took)
			}
			if err := r.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			r.calls("enter")
		}
		r.enter(t, mutex("bb", "name"))
		if asked, want := r.calls("enter"), []int{first[1], first[2], rest[0], rest[1]}; !isPart(asked, want) {
			t.Errorf("nodes %v were asked, where %d does not answer", asked, first[0])
		}
	})
}

func isPart(of, whole []int) bool {
	return len(of) == 3 && !slices.ContainsFunc(of, func(i int) bool { return !slices.Contains(whole, i) })
}

func TestAHoldOfABareMajorityIsLostWithOneOfItsNodes(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, _ := r.split(t, "name")
		c := mutex("aa", "name")
		r.enter(t, c)
		r.mem[first[0]].Forget()
		if err := r.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("given back: %v; two of five held it", err)
		}
	})
}

func TestAHoldOfABareMajorityIsGivenBackWhenOneOfItsNodesAnswers(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, _ := r.split(t, "name")
		c := mutex("aa", "name")
		r.enter(t, c)
		lost := func(string) error { return driver.ErrUnreachable }
		r.hook(first[0], lost)
		r.hook(first[2], lost)
		if err := r.Leave(t.Context(), c); err != nil {
			t.Error(err)
		}
		r.hook(first[0], nil)
		r.hook(first[2], nil)
		rivals := open(t, r.all)
		defer rivals.Close()
		if st, err := sessionOf(t, rivals, "r", time.Second).Enter(t.Context(), mutex("bb", "name")); err != nil || !st.Held {
			t.Errorf("a rival's: %+v, %v", st, err)
		}
	})
}

func TestAnUnknownClaimIsGivenBackAtEveryNode(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		if err := r.Leave(t.Context(), mutex("aa", "name")); !errors.Is(err, driver.ErrGone) {
			t.Error(err)
		}
		if left := r.calls("leave"); !slices.Equal(left, all) {
			t.Errorf("given back to %v", left)
		}
	})
}

func TestClientsOfANameAskTheSameNodesFirst(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		reversed := slices.Clone(r.all)
		slices.Reverse(reversed)
		e := open(t, reversed)
		defer e.Close()
		other := &rig{Session: sessionOf(t, e, "o", 10*time.Second)}
		used := map[int]bool{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c := mutex("aa", name)
			r.enter(t, c)
			mine := r.calls("enter")
			if err := r.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			other.enter(t, c)
			if theirs := r.calls("enter"); !slices.Equal(mine, theirs) {
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
