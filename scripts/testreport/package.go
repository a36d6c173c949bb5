package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// optional is the beginning of a skip message that CI accepts: for a server that
// could not be downloaded.
const optional = "optional server:"

// A line is one line of output of a test, or of the package if test is empty.
type line struct{ test, text string }

// A packageRun is the run of one package.
type packageRun struct {
	lines  []line
	ended  map[string]string // how each test ended: pass, fail, skip; empty while it runs
	report *report
}

// end prints the package's own output, and the output of its tests that failed or,
// after a panic or a timeout, did not end.
func (s *packageRun) end(e event) {
	bad := map[string]bool{}
	for test, how := range s.ended {
		bad[test] = how == "fail" || how == ""
	}
	s.report.times = append(s.report.times, fmt.Sprintf("%.1f %s", e.Elapsed, e.Package))
	if e.Action == "fail" {
		s.classify(e.Package)
		s.addCauses(bad)
	}
	for _, l := range s.lines {
		if bad[l.test] || l.test == "" && !isRedundant(l.text) {
			fmt.Fprint(s.report.out, l.text)
		}
	}
}

// recordFailure records the first messages of a failed test, each without its
// continuation lines.
func (s *packageRun) recordFailure(e event) {
	note, messages := e.Package+" "+e.Test, 0
	for _, l := range s.lines {
		if l.test == e.Test && logged.MatchString(l.text) && messages < maxMessages {
			note += "\n\t" + shortened(strings.TrimSpace(l.text))
			messages++
		}
	}
	top, _, _ := strings.Cut(e.Test, "/")
	for _, f := range s.report.failed {
		if f.pkg == e.Package && f.test == top {
			f.notes = append(f.notes, note)
			return
		}
	}
	s.report.failed = append(s.report.failed, &failure{pkg: e.Package, test: top, notes: []string{note}})
}

// maxMessages is how many messages of a failed test are repeated, and maxMessage
// the length of each.
const (
	maxMessages = 5
	maxMessage  = 400
)

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "..."
}

// recordSkip records a skipped test with its reason: the last message that it
// logged, which is Skip's.
func (s *packageRun) recordSkip(e event) {
	reason := ""
	for _, l := range s.lines {
		if l.test != e.Test || strings.HasPrefix(l.text, "=== ") || strings.HasPrefix(strings.TrimSpace(l.text), "--- SKIP") {
			continue
		}
		text := strings.TrimSpace(l.text)
		if at := logged.FindStringIndex(l.text); at != nil {
			reason = strings.TrimSpace(l.text[at[1]:])
		} else if reason != "" {
			reason += " " + text
		}
	}
	if reason == "" {
		reason = "no reason given"
	}
	note := fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason)
	s.report.skipped = append(s.report.skipped, note)
	if !strings.HasPrefix(reason, optional) {
		s.report.refused = append(s.report.refused, note)
	}
}

// logged matches the beginning of a message in the output of package testing.
var logged = regexp.MustCompile(`^\s+[^\s:]+\.go:\d+: `)

// processEnd matches the output of a race, and of a process that crashes.
var processEnd = regexp.MustCompile(`WARNING: DATA RACE|^panic: |^fatal error: `)

// addCauses adds tests to bad that passed but have the cause in their output: a
// race, a panic or a timeout is printed wherever the output is at that moment.
func (s *packageRun) addCauses(bad map[string]bool) {
	none := true
	for _, b := range bad {
		none = none && !b
	}
	for _, l := range s.lines {
		if l.test != "" && (none || processEnd.MatchString(l.text)) {
			bad[l.test] = true
		}
	}
}

// isRedundant reports whether the package's last line says the same.
func isRedundant(text string) bool {
	return text == "PASS\n" || text == "FAIL\n" || strings.HasPrefix(text, "testing: warning: no tests to run") ||
		strings.Contains(text, "[no tests to run]") || strings.Contains(text, "[no test files]")
}

// A failure is a failed top-level test, with its failed subtests.
type failure struct {
	pkg, test string
	notes     []string // the first messages of each
	noRerun   bool     // do not run it again
}

func (f *failure) print(out io.Writer, what string) {
	for _, note := range f.notes {
		fmt.Fprintf(out, "%s: %s\n", what, note)
	}
}

// neverByChance matches failures that a busy machine cannot explain: a race, a
// panic, or two holders of one lock. Such a test may well pass the next time, and
// fails the run anyway.
var neverByChance = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: |(two|both|\d+) hold|(given|held) twice|overlap`)

// classify decides whether failed tests are the only fault of a failed package, and
// whether they may be run again.
func (s *packageRun) classify(pkg string) {
	failures, cut, final := 0, false, false
	for _, how := range s.ended {
		if how == "fail" {
			failures++
		}
		cut = cut || how == ""
	}
	for _, l := range s.lines {
		final = final || (l.test == "" || s.ended[l.test] == "fail" || strings.Contains(l.text, "DATA RACE")) && neverByChance.MatchString(l.text)
	}
	if failures == 0 || cut {
		s.report.broken = append(s.report.broken, pkg)
	}
	for _, f := range s.report.failed {
		if f.pkg == pkg {
			f.noRerun = final || cut || strings.HasPrefix(f.test, "TestSoak") // soak tests look for rare failures
		}
	}
}

// An event is one line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string // empty in a build event
	Test    string // empty in an event of the package
	Output  string
	Elapsed float64 // in seconds, of what has ended
}

// A report collects the results of all packages, and prints each package when it
// has ended.
type report struct {
	out      io.Writer
	packages map[string]*packageRun
	count    map[string]int // of tests, by outcome
	broken   []string       // packages that failed by more than failed tests
	failed   []*failure
	unstable []*failure // passed when run again
	skipped  []string   // with reasons
	refused  []string   // skips that CI does not accept
	times    []string   // of packages
}
