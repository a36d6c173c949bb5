package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Rule is one thing that a lock promises.
type Rule string

// The rules.
const (
	Exclusion    Rule = "one holder at a time"
	UniqueTokens Rule = "a token is never given twice"
	TokenOrder   Rule = "tokens grow in the order of holding"
	LossInTime   Rule = "a loss is told before a rival holds"
	Kept         Rule = "the store forgets no claim"
	Renewed      Rule = "no lease is lost while nothing is wrong"
	StaleWrites  Rule = "stale writes are refused, current ones accepted"
	ArrivalOrder Rule = "first come, first served"
	Progress     Rule = "a free name is granted to a waiter"
	TrueRefusals Rule = "a try fails only on a name in use"
	Linearizable Rule = "the history is linearizable"
	NothingLeft  Rule = "nothing is left in the store"
)

// A Violation is what broke a rule.
type Violation struct {
	Rule     Rule
	Name     string
	At       Time  // when it was certain
	Attempts []int // indices in the history, the first ones
	Text     string
}

// A Verdict is the result of one rule.
type Verdict struct {
	Rule       Rule
	Checked    int // grants, pairs, writes…: what the rule was applied to
	Of         string
	Undecided  int // what could not be decided in time; only of Linearizable
	Violations []Violation
}

// Holds reports whether nothing broke the rule.
func (v *Verdict) Holds() bool { return len(v.Violations) == 0 }

// A Promise is what is expected of a store.
type Promise struct {
	Order   bool // first come, first served
	Fencing bool // it gives tokens
	Kept    bool // the record says what the store has forgotten
}

// A Report is the result of all rules that apply.
type Report struct {
	Verdicts []Verdict
}

// Holds reports whether no rule was broken.
func (r *Report) Holds() bool { return r.Gravest() == nil }

// byGravity are the rules, the gravest first. Linearizability covers those before it, and
// says less about what happened.
var byGravity = []Rule{Exclusion, UniqueTokens, TokenOrder, StaleWrites, LossInTime, Linearizable, Kept, Renewed, ArrivalOrder, Progress, TrueRefusals, NothingLeft}

// Gravest returns the violation of the gravest rule that was broken, the earliest of
// several; nil if there is none.
func (r *Report) Gravest() *Violation {
	var gravest *Violation
	for i := range r.Verdicts {
		for j := range r.Verdicts[i].Violations {
			if v := &r.Verdicts[i].Violations[j]; gravest == nil || v.before(gravest) {
				gravest = v
			}
		}
	}
	return gravest
}

func (v *Violation) before(o *Violation) bool {
	return cmp.Or(cmp.Compare(slices.Index(byGravity, v.Rule), slices.Index(byGravity, o.Rule)), cmp.Compare(v.At, o.At)) < 0
}

// most is how many violations of one rule are kept; more say nothing new.
const most = 20

// judge applies one rule.
type judge struct {
	h *History
	v Verdict
}

func (j *judge) violated(name string, at Time, text string, attempts ...int) {
	if len(j.v.Violations) < most {
		j.v.Violations = append(j.v.Violations, Violation{Rule: j.v.Rule, Name: name, At: at, Attempts: attempts, Text: text})
	}
}

// describe names an attempt in a violation.
func (j *judge) describe(i int) string {
	a := &j.h.Attempts[i]
	return fmt.Sprintf("client %d with token %d", a.Client, a.Token)
}

// String returns the time as a duration.
func (t Time) String() string { return time.Duration(t).Round(time.Microsecond).String() }
