package main

import (
	"fmt"
	"os"
	"strings"
)

// maxReruns is how many tests are run again. If more fail, it is not by chance.
const maxReruns = 8

// rerun runs failed tests twice again. Those that pass both times are unstable.
func (r *report) rerun(alone func(pkg, test string) bool) {
	if len(r.failed) > maxReruns {
		fmt.Fprintf(r.out, "%d tests failed: none of them is run again\n", len(r.failed))
		return
	}
	var failed []*failure
	for _, f := range r.failed {
		switch {
		case f.noRerun:
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

// runAlone runs one test with the flags of args, and prints its output if it fails.
func runAlone(args []string, pkg, test string) bool {
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
