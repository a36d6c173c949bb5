package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The test binary also serves as a child process.
func TestMain(m *testing.M) {
	child()
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of them would exit a second late
	os.Exit(m.Run())
}

// Figures are for the command; here every kind only has to come to its end.
func TestEveryKindIsMeasured(t *testing.T) {
	t.Parallel()
	for _, kind := range allKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, err := runStep(t.Context(), spec{cell: cell{Store: "redis", Kind: kind, RTT: 1}, N: 20, TTL: 2 * time.Second, Take: time.Minute, Limit: 2 * time.Minute})
			if err != nil || s.N != 20 || !s.OK {
				t.Errorf("%+v, %v", s, err)
			}
			if names(kind) && (s.Swept == 0 || s.Pace == 0) {
				t.Errorf("%+v: what is left was not counted", s)
			}
		})
	}
}

// What each store bears is for the command, too; but a crowd as small as this one, at a small
// distance, is borne by all, and served. A step in which this machine stood still says nothing.
func TestEveryStoreBearsASmallCrowd(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	atOnce := make(chan struct{}, 2) // steps: what is measured needs the processors
	for _, store := range storeNames() {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			of := spec{cell: cell{Store: store, Kind: waiting, RTT: 20}, N: 150, TTL: ttl, Take: time.Minute, Limit: 2 * time.Minute}
			for tries := 1; ; tries++ {
				s, err := runStep(t.Context(), of)
				t.Logf("%+v, %v", s, err)
				if err == nil && s.OK {
					return
				}
				if err != nil || s.Stalled < ttl.Seconds()/12 || tries == 3 {
					t.Fatalf("%d claims: %+v, %v", of.N, s, err)
				}
			}
		})
	}
}

// Beats that last longer than a sixth of a TTL are given up: a measurement that bears that
// shows nothing.
func TestALinkThatIsTooLongIsAFault(t *testing.T) {
	t.Parallel()
	s, err := runStep(t.Context(), spec{cell: cell{Store: "redis", Kind: held, RTT: 300}, N: 5, TTL: time.Second, Take: time.Minute, Limit: 2 * time.Minute})
	if err != nil || s.OK || s.Fault == "" {
		t.Errorf("a round trip of 300 ms at a TTL of 1 s: %+v, %v", s, err)
	}
}

func TestTheOrderOfTheLineIsJudged(t *testing.T) {
	t.Parallel()
	p := &performer{spec: spec{N: 3, TTL: 10 * time.Second}}
	line := []string{"b", "a", "c"}
	if err := p.judge([]string{"b", "a", "c"}, line, time.Second, nil); err != nil {
		t.Error(err)
	}
	for what, served := range map[string][]string{"overtaken": {"b", "c", "a"}, "not served": {"b", "a"}} {
		if err := p.judge(served, line, time.Second, nil); err == nil {
			t.Errorf("%s: borne", what)
		}
	}
}

func TestTheHighestNumberThatHoldsIsFound(t *testing.T) {
	t.Parallel()
	const n = 6
	for bears := -1; bears < n; bears++ {
		for first := range n {
			tried := map[int]bool{}
			lo, hi, err := search(n, first, func(i int) (ok, again bool, err error) {
				if tried[i] {
					t.Errorf("%d was tried twice", i)
				}
				tried[i] = true
				return i <= bears, true, nil
			})
			if lo != bears || hi != bears+1 || err != nil {
				t.Errorf("%d of %d hold, first %d: %d, %d, %v", bears, n, first, lo, hi, err)
			}
		}
	}
	lo, hi, _ := search(n, 4, func(i int) (ok, again bool, err error) { return false, i == 4, nil })
	if lo != -1 || hi != 4 {
		t.Errorf("without time for more: %d, %d", lo, hi)
	}
}

func TestTheTableSaysWhatWasBorneAndWhatEndedIt(t *testing.T) {
	t.Parallel()
	at := func(c cell, bears, below int, why string) result {
		return result{cell: c, Bears: bears, Below: below, TTL: "10s", Steps: []step{{N: below, Fault: why}}}
	}
	redis := cell{Store: "redis", Kind: held, RTT: 50}
	r := results{Before: []result{at(redis, 1000, 3000, "2 | lost")}, Now: []result{
		at(redis, 30_000, 0, ""),
		at(cell{Store: "sqlite", Kind: clients, RTT: noLink}, 0, 10, "too slow"),
		{cell: cell{Store: "etcd", Kind: once, RTT: 1}, Steps: []step{{N: 100_000, OK: true, Pace: 4321, Left: 77, Swept: 12}}},
	}}
	out := filepath.Join(t.TempDir(), "scale")
	if err := r.save(out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(out + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| redis | 50 ms | 1 000 | ≥ 30 000 |", "| sqlite | - |  |  |  |  |  | < 10 |",
		"| sqlite | clients | - | 10: too slow |", "| etcd | 1 ms |  | 100 000 at 4 321/s: 77, 12 s |",
	} {
		if !strings.Contains(string(page), want+"\n") && !strings.Contains(string(page), want+" ") {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	again, err := load(out + ".json")
	if err != nil || !reflect.DeepEqual(again, r) || !again.has(redis) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

// A child does what its parent asked for.
func TestCellsAreTheSameAfterJSON(t *testing.T) {
	t.Parallel()
	want := spec{cell: cell{Store: "redis", Kind: held, RTT: noLink}, N: 3, TTL: time.Second, Take: time.Second, Limit: time.Minute}
	b, err := json.Marshal(want)
	var got spec
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || got != want {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
	if s := fmt.Sprint(want.cell); s != "redis held" {
		t.Errorf("%q", s)
	}
}

// What a store bears over a long link it bears over a short one, mostly with one step.
func TestACellBeginsWhereTheNextLongerLinkEnded(t *testing.T) {
	t.Parallel()
	r := results{Now: []result{
		{cell: cell{"etcd", waiting, 50}, Bears: 3000},
		{cell: cell{"etcd", waiting, 20}, Bears: 30_000},
		{cell: cell{"etcd", held, 5}, Bears: 100},
		{cell: cell{"redis", waiting, 5}, Bears: 100},
	}}
	for ms, want := range map[int]int{50: 10_000, 30: 3000, 1: 30_000} {
		of := cell{"etcd", waiting, ms}
		if all, first := rungs(of.Kind, 0, r.longer(of)); all[first] != want {
			t.Errorf("%v begins with %d, not %d", of, all[first], want)
		}
	}
}
