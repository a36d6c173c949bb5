package historytest

import (
	"reflect"
	"testing"

	"github.com/pawl-go/pawl/internal/history"
)

var promise = history.Promise{Order: true, Fencing: true}

func TestInventedHistoryKeepsAllRules(t *testing.T) {
	t.Parallel()
	h := Invent(10_000, 1, false)
	kinds, ends := map[string]int{}, map[string]int{}
	for _, f := range h.Faults {
		kinds[f.Kind]++
	}
	for i := range h.Attempts {
		switch a := &h.Attempts[i]; {
		case a.Result == history.Held:
			ends[[...]string{"open", "released", "lost", "unknown"}[a.End]]++
		default:
			ends[[...]string{"no answer", "", "refused", "given up"}[a.Result]]++
		}
	}
	t.Logf("%d attempts in %v, faults %v, ends %v", len(h.Attempts), h.End, kinds, ends)
	for _, end := range []string{"open", "released", "lost", "no answer", "refused", "given up"} {
		if ends[end] == 0 {
			t.Errorf("no attempt was %s", end)
		}
	}
	for _, v := range history.Check(h, promise).Verdicts {
		t.Logf("%s: %d %s", v.Rule, v.Checked, v.Of)
		if !v.Holds() || v.Checked == 0 || v.Undecided > 0 {
			t.Errorf("%s: %d violations, %d undecided, the first %+v", v.Rule, len(v.Violations), v.Undecided, v.Violations[:min(1, len(v.Violations))])
		}
	}
}

func TestInventedViolationIsFound(t *testing.T) {
	t.Parallel()
	broken := map[history.Rule]bool{}
	r := history.Check(Invent(10_000, 1, true), promise)
	for _, v := range r.Verdicts {
		for _, one := range v.Violations {
			t.Logf("%s: %v %s", v.Rule, one.At, one.Text)
			broken[v.Rule] = true
		}
	}
	if first := r.Gravest(); first == nil || first.Rule != history.Exclusion || !broken[history.UniqueTokens] {
		t.Errorf("the first violation is %+v", first)
	}
}

func TestTheSameSeedInventsTheSameHistory(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(Invent(500, 3, true), Invent(500, 3, true)) {
		t.Error("two histories of one seed differ")
	}
}
