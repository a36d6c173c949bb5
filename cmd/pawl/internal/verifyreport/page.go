package verifyreport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/internal/history"
)

// A page is what the template shows. All text in it is safe to look at: hidden characters
// are escaped.
type page struct {
	Style, Script template.HTML
	Policy        string
	Data          template.JS // JSON, for the script

	Store, Version string
	Begun          string
	Length         string
	Cut            string // why the run ended early; empty: it did not
	TTL            string
	Faults         string
	State          string // of the verdict: held, violated or none
	Verdict        string
	Counts         []countRow
	Rules          []ruleRow
	Gravest        *violationRow
	Violations     []violationRow
	Linked         bool // a violation is on a timeline
	Left           []string
	Names          []nameRow
	Omitted        string // what the timelines leave out; empty: nothing
}

type countRow struct{ Label, N string }

// A ruleRow is one rule in the table.
type ruleRow struct {
	Rule       string
	State      string // held, violated or none
	Result     string
	Checked    string
	Violations string
	Undecided  string
}

// mostKept is how many violations of one rule a report has at most.
const mostKept = 20

// A violationRow is one violation, with its attempts.
type violationRow struct {
	Index    int // the gravest is 0, the others follow in the order of time
	Rule     string
	Name     string
	Link     string // to the timeline of the name; empty: there is none
	At       string
	Text     string
	Attempts []attemptRow
}

type attemptRow struct{ Client, Lane, Token, Called, Granted, Over, End string }

// A nameRow is the heading of one timeline.
type nameRow struct {
	Index int
	Name  string
	Sum   string
	Broke string // how many violations are on it; empty: none
}

func newPage(r Run) (*page, error) {
	s := newScene(r)
	data, err := json.Marshal(s.data()) // escapes <, > and &: it cannot end its element
	if err != nil {
		return nil, err
	}
	p := &page{
		Style: styleElement, Script: scriptElement, Policy: policy, Data: template.JS(data),
		Store: text(r.Store), Version: text(r.Version), Begun: r.Begun.UTC().Format("2006-01-02 15:04:05 UTC"),
		Length: r.Length.Round(100 * time.Millisecond).String(), TTL: r.History.TTL.String(), Cut: text(r.Cut),
		Faults: text(strings.Join(r.Faults, ", ")), Names: s.nameRows(), Omitted: s.omitted(),
	}
	p.State, p.Verdict = verdict(r.Report)
	for _, c := range r.Counts {
		p.Counts = append(p.Counts, countRow{text(c.Label), number(c.N)})
	}
	for i := range r.Report.Verdicts {
		p.Rules = append(p.Rules, newRuleRow(&r.Report.Verdicts[i]))
	}
	for i, v := range s.violations {
		row := s.violationRow(i, v)
		p.Violations = append(p.Violations, row)
		p.Linked = p.Linked || row.Link != ""
	}
	if len(p.Violations) > 0 {
		p.Gravest = &p.Violations[0]
	}
	for _, left := range r.History.Left {
		p.Left = append(p.Left, text(left))
	}
	return p, nil
}

// verdict returns the verdict as a state and as a sentence.
func verdict(r *history.Report) (state, sentence string) {
	var applied, broken, undecided int
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		undecided += v.Undecided
		if v.Checked > 0 || !v.Holds() {
			applied++
		}
		if !v.Holds() {
			broken++
		}
	}
	switch {
	case applied == 0:
		return "none", "No verdict: there was nothing to check."
	case broken > 0:
		return "violated", fmt.Sprintf("Violated: %d of %d rules were broken.", broken, applied)
	case undecided > 0:
		return "held", fmt.Sprintf("Held: none of %d rules was broken, but not everything could be decided.", applied)
	}
	return "held", fmt.Sprintf("Held: none of %d rules was broken.", applied)
}

func newRuleRow(v *history.Verdict) ruleRow {
	r := ruleRow{Rule: text(string(v.Rule)), Checked: strings.TrimSpace(number(v.Checked) + " " + text(v.Of)), Violations: number(len(v.Violations))}
	if len(v.Violations) >= mostKept {
		r.Violations += " or more"
	}
	switch {
	case !v.Holds():
		r.State, r.Result = "violated", "✗ violated"
	case v.Checked == 0:
		r.State, r.Result = "none", "– not checked"
	default:
		r.State, r.Result = "held", "✓ held"
	}
	if v.Undecided > 0 {
		r.Undecided = number(v.Undecided)
	}
	return r
}

func (s *scene) violationRow(i int, v *history.Violation) violationRow {
	row := violationRow{Index: i, Rule: text(string(v.Rule)), Name: shownName(v.Name), At: s.clock(v.At), Text: text(v.Text)}
	if n, ok := s.nameIndex[v.Name]; ok {
		row.Link = "#name-" + strconv.Itoa(n)
	}
	for _, index := range v.Attempts {
		a := &s.h.Attempts[index]
		row.Attempts = append(row.Attempts, attemptRow{
			Client: strconv.Itoa(a.Client), Lane: strconv.Itoa(a.Lane), Token: token(a), Called: s.clock(a.Called),
			Granted: s.clock(granted(a)), Over: s.clock(over(a)), End: ending(a),
		})
	}
	return row
}

// nameRows returns the headings of the timelines, with numbers of all attempts.
func (s *scene) nameRows() []nameRow {
	type sums struct{ attempts, grants, refused, losses, broke int }
	all := make([]sums, len(s.names))
	for i := range s.h.Attempts {
		a := &s.h.Attempts[i]
		n, ok := s.nameIndex[a.Name]
		if !ok {
			continue
		}
		all[n].attempts++
		switch {
		case a.Result == history.Held && a.End == history.Lost:
			all[n].grants++
			all[n].losses++
		case a.Result == history.Held:
			all[n].grants++
		case a.Result == history.Busy:
			all[n].refused++
		}
	}
	for _, v := range s.violations {
		if n, ok := s.nameIndex[v.Name]; ok {
			all[n].broke++
		}
	}
	rows := make([]nameRow, len(s.names))
	for i, n := range all {
		rows[i] = nameRow{Index: i, Name: shownName(s.names[i]), Sum: counted(n.attempts, "attempt") + ", " + counted(n.grants, "grant") + ", " + number(n.refused) + " refused, " + number(n.losses) + " lost"}
		if n.broke > 0 {
			rows[i].Broke = counted(n.broke, "violation")
		}
	}
	return rows
}

// omitted returns what the timelines leave out, in a sentence.
func (s *scene) omitted() string {
	var parts []string
	if n := len(s.h.Attempts) - len(s.kept); n > 0 {
		parts = append(parts, fmt.Sprintf("The timelines show %s of %s attempts: everything around the gravest and the first violations, and samples of the rest. Where a timeline is hatched, attempts are missing.", number(len(s.kept)), number(len(s.h.Attempts))))
	}
	if s.cutNames > 0 {
		parts = append(parts, fmt.Sprintf("%s have no timeline.", counted(s.cutNames, "further name")))
	}
	return strings.Join(parts, " ")
}

// inOrder returns the gravest violation of a report, and then the others in the order of
// time.
func inOrder(r *history.Report) (all []*history.Violation) {
	for i := range r.Verdicts {
		for j := range r.Verdicts[i].Violations {
			all = append(all, &r.Verdicts[i].Violations[j])
		}
	}
	slices.SortStableFunc(all, func(a, b *history.Violation) int { return cmp.Compare(a.At, b.At) })
	if gravest := slices.Index(all, r.Gravest()); gravest > 0 {
		all = slices.Insert(slices.Delete(all, gravest, gravest+1), 0, r.Gravest())
	}
	return all
}

func token(a *history.Attempt) string {
	if a.Result != history.Held {
		return ""
	}
	return strconv.FormatUint(a.Token, 10)
}

// ending returns how an attempt ended, in words.
func ending(a *history.Attempt) string {
	switch {
	case a.Result == history.NoAnswer:
		return "no answer"
	case a.Result == history.Busy:
		return "refused"
	case a.Result == history.Failed:
		return "given up"
	}
	return [...]string{"open", "released", "lost", "unknown"}[min(a.End, history.Unknown)]
}

func text(s string) string { return claimview.EscapeHidden(s) }

func shownName(s string) string { return claimview.ShownName(s) }

// number groups the digits of n.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(n) + " " + noun
}
