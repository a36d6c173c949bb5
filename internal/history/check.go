package history

import (
	"cmp"
	"slices"
	"time"
)

// Check applies the rules that p promises to h.
func Check(h *History, p Promise) *Report {
	names := h.byName()
	r := &Report{}
	apply := func(rule Rule, of string, check func(j *judge, name string, attempts []int)) {
		j := &judge{h: h, v: Verdict{Rule: rule, Of: of}}
		for _, n := range names {
			check(j, n.name, n.attempts)
		}
		r.Verdicts = append(r.Verdicts, j.v)
	}
	d, by := newDisturbances(h), time.Now().Add(budget)
	apply(Exclusion, "grants", exclusion)
	if p.Fencing {
		apply(UniqueTokens, "tokens", uniqueTokens)
		apply(TokenOrder, "grants", tokenOrder)
		apply(StaleWrites, "writes", staleWrites)
	}
	apply(LossInTime, "losses", d.lossInTime)
	if p.Kept {
		apply(Kept, "claims", func(j *judge, name string, attempts []int) { d.kept(j, name, attempts, p.Order) })
		apply(Renewed, "long holds", d.renewed)
	}
	if p.Order {
		apply(ArrivalOrder, "waits", d.arrivalOrder)
	}
	apply(Progress, "waits", d.progress)
	apply(TrueRefusals, "refused tries", d.trueRefusals)
	apply(Linearizable, "grants", func(j *judge, name string, attempts []int) { linearizable(j, name, attempts, p.Fencing, by) })
	apply(NothingLeft, "names", func(j *judge, _ string, _ []int) {
		if !h.LeftUnknown {
			j.v.Checked++
		}
	})
	left := &r.Verdicts[len(r.Verdicts)-1]
	for _, l := range h.Left {
		left.Violations = append(left.Violations, Violation{Rule: NothingLeft, At: h.End, Text: l})
	}
	return r
}

// A nameHistory is the attempts on one name, in the order of their calls.
type nameHistory struct {
	name     string
	attempts []int
}

func (h *History) byName() (names []nameHistory) {
	at := map[string]int{}
	for i := range h.Attempts {
		name := h.Attempts[i].Name
		k, known := at[name]
		if !known {
			k = len(names)
			at[name] = k
			names = append(names, nameHistory{name: name})
		}
		names[k].attempts = append(names[k].attempts, i)
	}
	slices.SortFunc(names, func(a, b nameHistory) int { return cmp.Compare(a.name, b.name) })
	for _, n := range names {
		h.sort(n.attempts, func(a *Attempt) Time { return a.Called })
	}
	return names
}

// sort sorts attempts by a time of theirs.
func (h *History) sort(attempts []int, by func(a *Attempt) Time) {
	slices.SortStableFunc(attempts, func(i, k int) int { return cmp.Compare(by(&h.Attempts[i]), by(&h.Attempts[k])) })
}

// certainHolds returns the attempts that were seen to hold, in the order of their grants.
func (h *History) certainHolds(attempts []int) []int {
	holds := slices.DeleteFunc(slices.Clone(attempts), func(i int) bool { return !h.Attempts[i].certain() })
	h.sort(holds, func(a *Attempt) Time { return a.Returned })
	return holds
}

// disturbances are the faults by client, in order.
type disturbances struct {
	h        *History
	byClient map[int][]Fault
	latest   map[int][]Time // the latest end of the faults up to each of byClient
	longest  time.Duration
	answers  map[int][]Time // when each client had an answer, in order
	began    map[int]Time   // when each client first asked
}

func newDisturbances(h *History) *disturbances {
	d := &disturbances{h: h, byClient: map[int][]Fault{}, latest: map[int][]Time{}, answers: map[int][]Time{}, began: map[int]Time{}}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if at, known := d.began[a.Client]; !known || a.Called < at {
			d.began[a.Client] = a.Called
		}
		if a.Result == Held {
			d.answers[a.Client] = append(d.answers[a.Client], a.Returned)
		}
		if a.End == Released {
			d.answers[a.Client] = append(d.answers[a.Client], a.Unlocked)
		}
	}
	for _, at := range d.answers {
		slices.Sort(at)
	}
	for _, f := range h.Faults {
		d.byClient[f.Client] = append(d.byClient[f.Client], f)
		d.longest = max(d.longest, time.Duration(f.To-f.From))
	}
	for c, fs := range d.byClient {
		slices.SortFunc(fs, func(a, b Fault) int { return cmp.Compare(a.From, b.From) })
		var latest Time
		for _, f := range fs {
			if d.harms(f) {
				latest = max(latest, f.To)
			}
			d.latest[c] = append(d.latest[c], latest)
		}
	}
	return d
}

// disturbed reports whether a fault of the client, or of the store, was under way at some
// time in an interval, or so shortly before that its consequences may have come then.
func (d *disturbances) disturbed(client int, from, to Time) bool {
	after := from - Time(2*d.h.TTL)
	return d.any(client, after, to, d.harms) || d.any(AllClients, after, to, d.harms)
}

// harms reports whether a fault can cost a client its places in line: a short stall does
// not, because beats are sent three times in a TTL.
func (d *disturbances) harms(f Fault) bool {
	return f.Kind != Stall || time.Duration(f.To-f.From) > d.h.TTL/3
}

// settled returns from when on the faults of a client, or of the store, that began before a
// moment have no consequences any more: it is served, and knows how its claims stand.
func (d *disturbances) settled(client int, before Time) (at Time) {
	for _, c := range [2]int{client, AllClients} {
		fs := d.byClient[c]
		i, _ := slices.BinarySearchFunc(fs, before, func(f Fault, t Time) int { return cmp.Compare(f.From, t) })
		if i > 0 {
			at = max(at, d.latest[c][i-1]+Time(2*d.h.TTL))
		}
	}
	return at
}

// stoodStill reports whether the process did not run at some time in an interval.
func (d *disturbances) stoodStill(client int, from, to Time) bool {
	return d.any(client, from, to, func(f Fault) bool { return f.Kind == Pause || f.Kind == Stall || f.Kind == Kill })
}

func (d *disturbances) any(client int, from, to Time, kind func(Fault) bool) bool {
	fs := d.byClient[client]
	i, _ := slices.BinarySearchFunc(fs, from-Time(d.longest), func(f Fault, t Time) int { return cmp.Compare(f.From, t) })
	for ; i < len(fs) && fs[i].From <= to; i++ {
		if fs[i].To >= from && kind(fs[i]) {
			return true
		}
	}
	return false
}
