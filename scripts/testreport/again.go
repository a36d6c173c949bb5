package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A failure is that of one test of a package, with those of its parts.
type failure struct {
	pkg, test string
	notes     []string // how each began
	final     bool     // it is not run again
}

func (f *failure) print(out io.Writer, what string) {
	for _, note := range f.notes {
		fmt.Fprintf(out, "%s: %s\n", what, note)
	}
}

// proof is in the output of what no busy machine explains: a race, a process that
// panics, or two that hold one lock. It may well pass the next time, and fails the
// run all the same.
var proof = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: |(two|both|\d+) hold|(given|held) twice|overlap`)

// judge looks at a package that failed: whether it is by failed tests alone, and
// whether these may be run again.
func (s *suite) judge(pkg string) {
	failures, cut, final := 0, false, false
	for _, how := range s.ended {
		if how == "fail" {
			failures++
		}
		cut = cut || how == ""
	}
	for _, l := range s.lines {
		final = final || (l.test == "" || s.ended[l.test] == "fail" || strings.Contains(l.text, "DATA RACE")) && proof.MatchString(l.text)
	}
	if failures == 0 || cut {
		s.report.broken = append(s.report.broken, pkg)
	}
	for _, f := range s.report.failed {
		if f.pkg == pkg {
			f.final = final || cut || strings.HasPrefix(f.test, "TestSoak") // which looks for what is rare
		}
	}
}

// maxAgain is how many tests are run again. When more fail it is not by chance.
const maxAgain = 8

// again runs what failed once more, twice each, and takes what passes both times
// for unstable.
func (r *report) again(alone func(pkg, test string) bool) {
	if len(r.failed) > maxAgain {
		fmt.Fprintf(r.out, "%d tests failed: none of them is run again\n", len(r.failed))
		return
	}
	var failed []*failure
	for _, f := range r.failed {
		switch {
		case f.final:
			fmt.Fprintf(r.out, "not run again: %s %s\n", f.pkg, f.test)
			failed = append(failed, f)
		case r.passes(f, 1, alone) && r.passes(f, 2, alone):
			r.unstable = append(r.unstable, f)
		default:
			failed = append(failed, f)
		}
	}
	r.failed = failed
}

func (r *report) passes(f *failure, time int, alone func(pkg, test string) bool) bool {
	good := alone(f.pkg, f.test)
	verdict := "passed"
	if !good {
		verdict = "FAILED"
	}
	fmt.Fprintf(r.out, "run again, alone, %d of 2: %s %s: %s\n", time, f.pkg, f.test, verdict)
	return good
}

// alone runs one test as args say, and shows what it printed if it fails.
func alone(args []string, pkg, test string) bool {
	var flags []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		}
	}
	r := newReport(os.Stdout)
	err := r.run(append(flags, "-count=1", "-run=^"+test+"$", pkg))
	return err == nil && r.count["pass"] > 0
}

// keep adds what is unstable, and the times, to the files in the folder.
func (r *report) keep(folder string) error {
	var unstable strings.Builder
	for _, f := range r.unstable {
		f.print(&unstable, "unstable")
	}
	times := strings.Join(append(r.times, ""), "\n")
	for name, text := range map[string]string{"unstable.txt": unstable.String(), "times.txt": times} {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		if _, err := file.WriteString(text); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
