package redisclient

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

var scriptFiles = fstest.MapFS{"one.lua": {Data: []byte("one")}, "many.lua": {Data: []byte("many")}}

var oneScript, manyScript = NewScript(scriptFiles, "one.lua"), NewScript(scriptFiles, "many.lua")

var joined = &Merge{Script: manyScript, Join: func(calls []*Call) (keys, args []string) {
	for _, c := range calls {
		keys, args = append(keys, c.Keys...), append(args, c.Args...)
	}
	return keys, args
}}

// mergeable returns n calls that can be merged, with the keys k0, k1, ...
func mergeable(n int) (calls []*PendingCall) {
	for i := range n {
		calls = append(calls, NewPendingCall(Call{Script: oneScript, Keys: []string{fmt.Sprint("k", i)}, Args: []string{fmt.Sprint("a", i)}, Merge: joined}))
	}
	return calls
}

// texts returns the replies of all calls.
func texts(t *testing.T, calls []*PendingCall) (all []string) {
	t.Helper()
	for _, p := range calls {
		<-p.Done
		a, sent := p.Result()
		switch {
		case !sent:
			all = append(all, "unsent")
		case a.Err != nil:
			all = append(all, a.Err.Error())
		default:
			all = append(all, a.Text)
		}
	}
	return all
}

// echo answers a call by its first key, and a merged one for each key but those to skip.
func echo(c Call, skip ...string) (a Answer) {
	if c.Script != manyScript {
		a.Text = c.Keys[0] + " alone"
		return a
	}
	for _, key := range c.Keys {
		if slices.Contains(skip, key) {
			key = ""
		}
		a.Array = append(a.Array, Reply{Text: key})
	}
	return a
}

func TestABatchMergesCallsAndResendsWhatWasNotServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls  int
		answer func(trip int, c Call) Answer
		want   []string
		trips  []int // calls that were sent in each
	}{
		"few calls are not merged": {3, func(_ int, c Call) Answer { return echo(c) },
			[]string{"k0 alone", "k1 alone", "k2 alone"}, []int{3}},
		"many are": {4, func(_ int, c Call) Answer { return echo(c) },
			[]string{"k0", "k1", "k2", "k3"}, []int{1}},
		"a skipped call is sent alone": {5, func(_ int, c Call) Answer { return echo(c, "k1", "k4") },
			[]string{"k0", "k1 alone", "k2", "k3", "k4 alone"}, []int{1, 2}},
		"an unknown script is sent with its text": {4, func(trip int, c Call) Answer {
			if trip == 0 {
				return Answer{Err: ServerError("NOSCRIPT No matching script")}
			}
			if c.Words()[0] != "EVAL" {
				return Answer{Err: errors.New("not with its text")}
			}
			return echo(c)
		}, []string{"k0", "k1", "k2", "k3"}, []int{1, 1}},
		"a refusal costs only the call that causes it": {4, func(_ int, c Call) Answer {
			if slices.Contains(c.Keys, "k2") {
				return Answer{Err: ServerError("NOPERM k2")}
			}
			return echo(c)
		}, []string{"k0 alone", "k1 alone", "NOPERM k2", "k3 alone"}, []int{1, 4}},
		"without a reply the outcome of all is unknown": {4, func(int, Call) Answer { return Answer{Err: errors.New("cut")} },
			[]string{"cut", "cut", "cut", "cut"}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trips []int
			b := Batch{Send: func(calls []Call, out []Answer) bool {
				for i, call := range calls {
					out[i] = c.answer(len(trips), call)
				}
				trips = append(trips, len(calls))
				return false
			}}
			calls := mergeable(c.calls)
			b.Run(calls)
			if got := texts(t, calls); !slices.Equal(got, c.want) {
				t.Errorf("answers %q, not %q", got, c.want)
			}
			if !slices.Equal(trips, c.trips) {
				t.Errorf("calls in each trip: %v, not %v", trips, c.trips)
			}
		})
	}
}

func TestCallsThatALostConnectionLeavesAreNotSent(t *testing.T) {
	t.Parallel()
	b := Batch{Send: func(calls []Call, out []Answer) bool {
		out[0] = echo(calls[0], "k1", "k3")
		return true
	}}
	calls := mergeable(4)
	if !b.Run(calls) {
		t.Error("the connection is not reported as lost")
	}
	if got, want := texts(t, calls), []string{"k0", "unsent", "k2", "unsent"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, not %q", got, want)
	}
}

func TestACallIsEncodedWithItsKeys(t *testing.T) {
	t.Parallel()
	digest := oneScript.loaded().digest
	for _, c := range []struct {
		call Call
		want []string
	}{
		{Command("GET", "k"), []string{"GET", "k"}},
		{Call{Name: "INFO", Args: []string{"server"}}, []string{"INFO", "server"}},
		{Call{Script: oneScript, Keys: []string{"k", "l"}, Args: []string{"a"}}, []string{"EVALSHA", digest, "2", "k", "l", "a"}},
		{Call{Script: oneScript, Keys: []string{"k"}}.WithText(), []string{"EVAL", "one", "1", "k"}},
	} {
		if got := c.call.Words(); !slices.Equal(got, c.want) {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}
