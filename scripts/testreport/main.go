// Command testreport runs go test and prints what a reader needs: a line per
// package, the output of failed tests, all skipped tests with their reasons, again
// the first messages of each failure, because a server's log may hide them, and one
// line of counts. Its arguments are passed to go test: flags as -name=value, and
// packages.
//
// A test that fails is run again twice, alone, after the others have ended. If it
// passes both times it is unstable, which is reported but is not a failure; see
// rerun.go.
//
// If TESTREPORT names a folder, unstable tests are appended to unstable.txt there,
// and the time of each package to times.txt.
//
// With CI=true in the environment a skipped test is a failure, so that an
// incomplete run cannot pass. Only a skip whose message begins with [optional] is
// accepted, and it is still shown.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	start := time.Now()
	r := newReport(os.Stdout)
	err := r.run(os.Args[1:])
	if len(r.failed) == 0 && len(r.broken) == 0 && err != nil {
		r.broken = append(r.broken, fmt.Sprintf("go test: %v", err))
	}
	r.rerun(func(pkg, test string) bool { return runAlone(os.Args[1:], pkg, test) })
	good := r.printSummary(os.Getenv("CI") == "true", time.Since(start))
	if folder := os.Getenv("TESTREPORT"); folder != "" {
		if err := r.writeFiles(folder); err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			good = false
		}
	}
	if !good {
		os.Exit(1)
	}
}

// printSummary prints failures, skips and counts, and reports success.
func (r *report) printSummary(ci bool, took time.Duration) bool {
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

// writeFiles appends the unstable tests and the times to the files in the folder.
func (r *report) writeFiles(folder string) error {
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
