// Command testreport runs go test and prints what a reader needs of it: the line
// of each package, the output of what failed, every test that skipped and why,
// once more how each failure began, since a server's log may hide it, and one
// line of counts. Its arguments go to go test: flags as -name=value, and packages.
//
// A test that fails is run again, alone and twice, when the others have ended. If
// it passes both times it is unstable, which is said but fails nothing; see again.go.
//
// With TESTREPORT set to a folder, unstable tests are added to unstable.txt there,
// and the time of each package to times.txt.
//
// With CI=true in the environment a skipped test is a failure, so that a run
// that checked less than it should cannot pass for a good one. Only a skip whose
// message begins with [optional] is let through, and it is still shown.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// optional begins the message of a skip that CI lets through: a server that is
// fetched from outside and could not be.
const optional = "optional server:"

// An event is one line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string // empty in a build event
	Test    string // empty in an event of the package itself
	Output  string
	Elapsed float64 // in seconds, of what has ended
}

// A line is one line that a test printed, or its package if test is empty.
type line struct{ test, text string }

// A suite is one package's run so far.
type suite struct {
	lines  []line
	ended  map[string]string // how each test ended: pass, fail, skip, or empty while it runs
	report *report
}

// A report counts over all packages, and prints each when it has ended.
type report struct {
	out      io.Writer
	suites   map[string]*suite
	count    map[string]int // of tests, by how they ended
	broken   []string       // packages that failed by more than a failed test
	failed   []*failure
	unstable []*failure // those that passed when they were run again
	skipped  []string   // with reasons
	refused  []string   // those of them that CI does not let through
	times    []string   // of packages
}

func main() {
	start := time.Now()
	r := newReport(os.Stdout)
	err := r.run(os.Args[1:])
	if len(r.failed) == 0 && len(r.broken) == 0 && err != nil {
		r.broken = append(r.broken, fmt.Sprintf("go test: %v", err))
	}
	r.again(func(pkg, test string) bool { return alone(os.Args[1:], pkg, test) })
	good := r.end(os.Getenv("CI") == "true", time.Since(start))
	if folder := os.Getenv("TESTREPORT"); folder != "" {
		if err := r.keep(folder); err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			good = false
		}
	}
	if !good {
		os.Exit(1)
	}
}

// run takes in the events of go test with these arguments.
func (r *report) run(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = r.read(out)
	if err != nil {
		r.broken = append(r.broken, fmt.Sprintf("its output: %v", err))
		_, _ = io.Copy(io.Discard, out) // or go test would wait for a reader
	}
	err = cmp.Or(cmd.Wait(), err)
	r.cut()
	return err
}

func newReport(out io.Writer) *report {
	return &report{out: out, suites: map[string]*suite{}, count: map[string]int{}}
}

// read takes in the events. What is not an event is shown as it came.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			var e event
			if json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
				fmt.Fprint(r.out, text)
			} else {
				r.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	s := r.suites[e.Package]
	if s == nil {
		s = &suite{ended: map[string]string{}, report: r}
		r.suites[e.Package] = s
	}
	switch e.Action {
	case "output":
		s.lines = append(s.lines, line{e.Test, e.Output})
	case "run":
		s.ended[e.Test] = ""
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.end(e)
			delete(r.suites, e.Package)
			return
		}
		s.ended[e.Test] = e.Action
		r.count[e.Action]++
		switch e.Action {
		case "skip":
			s.skip(e)
		case "fail":
			s.fail(e)
		}
	}
}

// cut ends what has not ended because go test was cut off.
func (r *report) cut() {
	for pkg, s := range r.suites {
		fmt.Fprintf(r.out, "%s did not end\n", pkg)
		s.end(event{Action: "fail", Package: pkg})
	}
}

// fail notes the first messages of a failed test, without their further lines.
func (s *suite) fail(e event) {
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
// how much of each.
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

// skip notes a skipped test with its reason: the last message the test logged,
// which is what Skip was given.
func (s *suite) skip(e event) {
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

// logged is how the testing package begins a message.
var logged = regexp.MustCompile(`^\s+[^\s:]+\.go:\d+: `)

// end prints a package: what it said itself, and what its tests said that
// failed or, after a panic or a timeout, had not ended.
func (s *suite) end(e event) {
	bad := map[string]bool{}
	for test, how := range s.ended {
		bad[test] = how == "fail" || how == ""
	}
	s.report.times = append(s.report.times, fmt.Sprintf("%.1f %s", e.Elapsed, e.Package))
	if e.Action == "fail" {
		s.judge(e.Package)
		s.blame(bad)
	}
	for _, l := range s.lines {
		if bad[l.test] || l.test == "" && !dull(l.text) {
			fmt.Fprint(s.report.out, l.text)
		}
	}
}

// ending is in the output of a race, and of a process that ends by itself.
var ending = regexp.MustCompile(`WARNING: DATA RACE|^panic: |^fatal error: `)

// blame adds to the bad tests of a failed package those that passed but have the
// cause in their output: a race, or the end of the process by a panic or a timeout,
// is written wherever the output stands at that moment.
func (s *suite) blame(bad map[string]bool) {
	none := true
	for _, b := range bad {
		none = none && !b
	}
	for _, l := range s.lines {
		if l.test != "" && (none || ending.MatchString(l.text)) {
			bad[l.test] = true
		}
	}
}

// dull reports whether a package's line says nothing that its last line does not.
func dull(text string) bool {
	return text == "PASS\n" || text == "FAIL\n" || strings.HasPrefix(text, "testing: warning: no tests to run") ||
		strings.Contains(text, "[no tests to run]") || strings.Contains(text, "[no test files]")
}

// end prints the failures, the skips and the counts, and reports whether all is well.
func (r *report) end(ci bool, took time.Duration) bool {
	for _, f := range r.unstable {
		f.print(r.out, "unstable")
	}
	for _, f := range r.failed {
		f.print(r.out, "failed")
	}
	for _, what := range r.broken {
		fmt.Fprintln(r.out, "broken:", what)
	}
	for _, note := range r.skipped {
		fmt.Fprintln(r.out, "skipped:", note)
	}
	good := len(r.broken) == 0 && len(r.failed) == 0
	if ci && len(r.refused) > 0 {
		good = false
		fmt.Fprintf(r.out, "CI=true, and %d of these may not skip (only %q may)\n", len(r.refused), optional)
	}
	verdict := "ok"
	if !good {
		verdict = "FAILED"
	}
	fmt.Fprintf(r.out, "tests %s: %d passed, %d failed, %d unstable, %d skipped; %v\n",
		verdict, r.count["pass"], len(r.failed), len(r.unstable), r.count["skip"], took.Round(100*time.Millisecond))
	return good
}
