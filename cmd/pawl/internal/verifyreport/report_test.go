package verifyreport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/historytest"
)

// run returns a run with a history and its report.
func run(h *history.History) Run {
	return Run{
		Store: "redis://cache-1:6379/2", Version: "1.2.3", Begun: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Length: time.Minute,
		Faults: []string{"pause", "kill"}, Counts: []Count{{"operations", 1234567}, {"losses", 3}},
		History: h, Report: history.Check(h, history.Promise{Order: true, Fencing: true}),
	}
}

func write(t *testing.T, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// data returns what the script of a page gets.
func data(t *testing.T, page string) (d sceneData) {
	t.Helper()
	m := dataElement.FindAllStringSubmatch(page, -1)
	if len(m) != 1 {
		t.Fatalf("the page has %d elements with data", len(m))
	}
	if err := json.Unmarshal([]byte(m[0][1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPageSaysWhatHeldAndWhatDidNot(t *testing.T) {
	t.Parallel()
	held := write(t, run(historytest.Invent(10_000, 1, false)))
	for _, part := range []string{"Held: none of 10 rules was broken.", "1\u202f234\u202f567", "redis://cache-1:6379/2", "✓ held", "pause, kill", "2026-03-01 12:00:00 UTC"} {
		if !strings.Contains(held, part) {
			t.Errorf("the page of a sound run lacks %q", part)
		}
	}
	for _, part := range []string{"✗", "data-violation=", "firstlanes\""} {
		if strings.Contains(strings.Split(held, `<script type="module"`)[0], part) {
			t.Errorf("the page of a sound run has %q", part)
		}
	}
	r := run(historytest.Invent(10_000, 1, true))
	page := html.UnescapeString(write(t, r))
	first := r.Report.Gravest()
	for _, part := range []string{"Violated: 3 of 10 rules were broken.", "✗ violated", first.Text, string(first.Rule), `data-violation="0"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of a run with a violation lacks %q", part)
		}
	}
	if d := data(t, page); len(d.Violations) != 3 || d.Names[d.Violations[0].Name] != first.Name || len(d.Violations[0].Attempts) != 2 {
		t.Errorf("the data have the violations %+v", d.Violations)
	}
}

func TestPageOfARunThatEndedEarlySaysSo(t *testing.T) {
	t.Parallel()
	r := run(historytest.Invent(1000, 1, true))
	if strings.Contains(write(t, r), `id="cut"`) {
		t.Error("a whole run is said to have ended early")
	}
	r.Length, r.Cut = 7*time.Second, "The run ended early, after 7s of 1m0s: a <worker> ended"
	page := write(t, r)
	if !strings.Contains(html.UnescapeString(page), r.Cut+".") || strings.Contains(page, "<worker>") {
		t.Error("the page does not say that the run ended early")
	}
}

// The page begins with two that held, though a lesser rule was broken before.
func TestPageShowsTheGravestViolationFirst(t *testing.T) {
	t.Parallel()
	r := run(historytest.Invent(10_000, 1, true))
	for i := range r.Report.Verdicts {
		if v := &r.Report.Verdicts[i]; v.Rule == history.NothingLeft {
			v.Violations = append(v.Violations, history.Violation{Rule: v.Rule, At: 1, Text: "left"})
		}
	}
	if d := data(t, write(t, r)); len(d.Violations) != 4 || d.Violations[0].Rule != string(history.Exclusion) || d.Violations[1].Rule != string(history.NothingLeft) {
		t.Errorf("%+v", d.Violations)
	}
}

func TestNothingCheckedIsNoVerdict(t *testing.T) {
	t.Parallel()
	page := write(t, Run{History: &history.History{}, Report: &history.Report{}})
	if !strings.Contains(page, "No verdict") || strings.Contains(page, "Held:") {
		t.Error("a run without a rule has a verdict")
	}
	if err := Write(&bytes.Buffer{}, Run{}); err == nil {
		t.Error("a run without a history has a page")
	}
}

func TestUndecidedIsSaid(t *testing.T) {
	t.Parallel()
	r := run(historytest.Invent(100, 1, false))
	r.Report.Verdicts[0].Undecided = 17
	if page := write(t, r); !strings.Contains(page, "not everything could be decided") || !strings.Contains(page, ">17<") {
		t.Error("the page does not say what is undecided")
	}
}

// hostile are texts that would do harm if a page took them for HTML or for script.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<!--<script>`, `"><img src=x onerror=alert(2)>`, `' onmouseover='alert(3)`, "\u2028alert(4)\u2029",
	"\x1b]0;owned\x07\x00\u202etxt.exe", "\xff\xfe", `{{.}} ${alert(5)} </title></style></textarea>`, `]]>`, `\u003c/script>`,
}

func TestTextOfARunIsText(t *testing.T) {
	t.Parallel()
	for _, bad := range hostile {
		h := historytest.Invent(300, 1, true)
		for i := range h.Attempts {
			if h.Attempts[i].Name == "deploy" {
				h.Attempts[i].Name = bad
			}
			h.Attempts[i].Err = bad
		}
		for i := range h.Faults {
			h.Faults[i].Kind = bad
		}
		h.Left = []string{bad}
		r := run(h)
		r.Store, r.Version, r.Faults, r.Counts = bad, bad, []string{bad}, []Count{{bad, 1}}
		for i := range r.Report.Verdicts {
			r.Report.Verdicts[i].Of = bad
		}
		page := write(t, r)
		usual := write(t, run(historytest.Invent(300, 1, true)))
		for _, mark := range []string{"<script", "</script", "<style", "</style", "<img", "<!--", "</title", "</textarea"} {
			if got, want := strings.Count(strings.ToLower(page), mark), strings.Count(strings.ToLower(usual), mark); got != want {
				t.Errorf("%q: %s is there %d times, not %d", bad, mark, got, want)
			}
		}
		if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && r < ' ' || r == 0x202e || r == 0x2028 || r == '\ufffd' }); i >= 0 {
			t.Errorf("%q: the page has %q", bad, page[i:i+10])
		}
		if d := data(t, page); !slices.Contains(d.Names, shownName(bad)) || !slices.Contains(d.Errors, text(bad)) {
			t.Errorf("%q: the data have the names %q and the errors %.200q", bad, d.Names, d.Errors)
		}
	}
}

// A page that loads something says so by an address, and works only where that is.
func TestPageLoadsNothing(t *testing.T) {
	t.Parallel()
	page := write(t, run(historytest.Invent(500, 1, true)))
	for _, part := range []string{"http:", "https:", "src=", "@import", "url(", "<link", "<iframe", " style=", " onclick=", "eval(", "innerHTML", "import("} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q", part)
		}
	}
	m := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no policy")
	}
	got := html.UnescapeString(m[1])
	element := func(pattern string) string {
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1)
		if len(all) != 1 {
			t.Fatalf("%d elements are %s", len(all), pattern)
		}
		return hash(all[0][1])
	}
	want := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'",
		element(`(?s)<script type="module">(.*?)</script>`), element(`(?s)<style>(.*?)</style>`))
	if got != want {
		t.Errorf("the policy is %s, not %s", got, want)
	}
	if before, _, _ := strings.Cut(page, "Content-Security-Policy"); strings.Contains(before, "<style") || strings.Contains(before, "<script") {
		t.Error("the policy comes after what it should allow")
	}
}

func TestTheSameRunGivesTheSamePage(t *testing.T) {
	t.Parallel()
	one, other := write(t, run(historytest.Invent(3_000, 2, true))), write(t, run(historytest.Invent(3_000, 2, true)))
	if one != other {
		t.Error("two pages of one run differ")
	}
}
