package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/verify"
	"github.com/pawl-go/pawl/cmd/pawl/internal/verifyreport"
	"github.com/pawl-go/pawl/internal/history"
)

// verifyJSON is what verify --json prints.
type verifyJSON struct {
	Store      string          `json:"store"`
	Kind       string          `json:"kind"`        // of store
	Seconds    float64         `json:"seconds"`     // how long the workers worked, also if the run ended early
	TTL        float64         `json:"ttl_seconds"` // what the store made of --ttl
	Seed       uint64          `json:"seed,string"`
	Kept       bool            `json:"kept"`          // all promises
	Cut        string          `json:"cut,omitempty"` // why the run ended early
	Counts     verify.Counts   `json:"counts"`
	Promises   []promiseJSON   `json:"promises"`
	Violations []violationJSON `json:"violations"`
	Limits     string          `json:"limits,omitempty"`
}

type promiseJSON struct {
	Promise    history.Rule `json:"promise"`
	Kept       bool         `json:"kept"`
	Checked    int          `json:"checked"`
	Of         string       `json:"of"`
	Undecided  int          `json:"undecided"`
	Violations int          `json:"violations"`
}

type violationJSON struct {
	Promise history.Rule `json:"promise"`
	Name    string       `json:"name"`
	Seconds float64      `json:"seconds"` // since the beginning
	Text    string       `json:"text"`
}

// showResult prints the result of a run.
func (v *verification) showResult(r *verify.Result) error {
	if v.json {
		return v.printJSON(v.asJSON(r))
	}
	_ = v.print("%s, %d processes with %d goroutines for %s, TTL %s, seed %s\n", v.store.shown, v.config.Workers, v.config.Lanes,
		v.lengthOf(r), r.History.TTL.Round(time.Millisecond), strconv.FormatUint(v.config.Seed, 10))
	c := r.Counts
	_ = v.print("%s operations: %s grants, %s refused, %s cancelled, %s failed, %s writes, of which %s stale\n",
		thousands(c.Operations), thousands(c.Grants), thousands(c.Refused), thousands(c.Cancelled), thousands(c.Failed), thousands(c.Writes), thousands(c.StaleWrites))
	_ = v.print("%s; %s leases lost\n\n", faultsInWords(c), thousands(c.Losses))
	if r.Cut != nil {
		_ = v.print("the run ended early: %v\n\n", r.Cut)
	}
	rows := [][]string{{"PROMISE", "CHECKED ON", "RESULT"}}
	for _, p := range r.Report.Verdicts {
		result := "kept"
		switch {
		case !p.Holds():
			result = "BROKEN"
		case p.Checked == 0:
			result = "not seen"
		case p.Undecided > 0:
			result = fmt.Sprintf("kept, %d parts undecided", p.Undecided)
		}
		rows = append(rows, []string{string(p.Rule), thousands(p.Checked) + " " + p.Of, result})
	}
	if err := v.printTable(rows); err != nil {
		return err
	}
	if worst := r.Report.Gravest(); worst != nil {
		_ = v.print("\ngravest violation, after %s, on %q: %s:\n  %s\n", worst.At, worst.Name, string(worst.Rule), worst.Text)
		if limit := verify.Limits(r.Store); limit != "" {
			_ = v.print("\nnot promised in this store: %s\n", limit)
		}
	}
	return v.unwritten
}

// lengthOf returns how long the workers worked, and of which time if the run ended early.
func (v *verification) lengthOf(r *verify.Result) string {
	if r.Length < v.config.Length {
		return fmt.Sprintf("%v of %v", r.Length.Round(100*time.Millisecond), v.config.Length)
	}
	return v.config.Length.String()
}

// cutInWords returns why a run did not last as long as asked, or "".
func cutInWords(asked time.Duration, r *verify.Result) string {
	if r.Cut == nil {
		return ""
	}
	return fmt.Sprintf("The run ended early, after %v of %v: %v", r.Length.Round(100*time.Millisecond), asked, r.Cut)
}

func (v *verification) asJSON(r *verify.Result) verifyJSON {
	j := verifyJSON{
		Store: v.store.shown, Kind: r.Store, Seconds: r.Length.Round(time.Millisecond).Seconds(), TTL: r.History.TTL.Seconds(), Seed: v.config.Seed,
		Kept: r.Report.Holds(), Counts: r.Counts, Violations: []violationJSON{}, Limits: verify.Limits(r.Store),
	}
	if r.Cut != nil {
		j.Cut = r.Cut.Error()
	}
	for _, p := range r.Report.Verdicts {
		j.Promises = append(j.Promises, promiseJSON{p.Rule, p.Holds(), p.Checked, p.Of, p.Undecided, len(p.Violations)})
		for _, x := range p.Violations {
			j.Violations = append(j.Violations, violationJSON{x.Rule, x.Name, time.Duration(x.At).Seconds(), x.Text})
		}
	}
	slices.SortStableFunc(j.Violations, func(a, b violationJSON) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return j
}

// faultsInWords returns how many faults of which kind there were.
func faultsInWords(c verify.Counts) string {
	if c.FaultsInAll == 0 {
		return "no faults"
	}
	var kinds []string
	for _, f := range slices.Sorted(maps.Keys(c.Faults)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", c.Faults[f], f))
	}
	return fmt.Sprintf("%d faults: %s", c.FaultsInAll, strings.Join(kinds, ", "))
}

// thousands returns n with spaces between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// A reportFile is the file of --report. It is there under its name only when it is whole.
type reportFile struct {
	path string
	file *os.File // nil: no report was asked for
}

// createReport creates the file before the run, so that a path that cannot be written to
// is found at once. What a symbolic link leads to is replaced, not the link; and what is
// not a regular file, such as a device, is not replaced.
func (v *verification) createReport() (*reportFile, error) {
	if v.report == "" {
		return &reportFile{}, nil
	}
	path := v.report
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if there, err := os.Stat(path); err == nil && !there.Mode().IsRegular() {
		return nil, fmt.Errorf("--report %s: not a regular file", v.report)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".pawl-verify-*")
	if err != nil {
		return nil, fmt.Errorf("--report %s: %w", v.report, err)
	}
	return &reportFile{path, f}, nil
}

func (f *reportFile) write(v *verification, begun time.Time, r *verify.Result) error {
	if f.file == nil {
		return nil
	}
	c := r.Counts
	err := verifyreport.Write(f.file, verifyreport.Run{
		Store: v.store.shown, Version: ourVersion(), Begun: begun, Length: r.Length, Cut: cutInWords(v.config.Length, r), Faults: v.config.Faults,
		Counts: []verifyreport.Count{
			{Label: "operations", N: c.Operations}, {Label: "grants", N: c.Grants}, {Label: "refused", N: c.Refused},
			{Label: "cancelled", N: c.Cancelled}, {Label: "failed", N: c.Failed}, {Label: "leases lost", N: c.Losses},
			{Label: "writes", N: c.Writes}, {Label: "stale writes refused", N: c.StaleWrites}, {Label: "faults", N: c.FaultsInAll},
		},
		History: r.History, Report: r.Report,
	})
	if err == nil {
		err = f.file.Chmod(0o644)
	}
	if closed := f.file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.file.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("--report %s: %w", f.path, err)
	}
	f.file = nil
	return nil
}

// discard removes a file that was not written.
func (f *reportFile) discard() {
	if f.file != nil {
		_ = f.file.Close()
		_ = os.Remove(f.file.Name())
	}
}
