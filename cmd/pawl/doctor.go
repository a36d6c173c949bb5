package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/doctor"
)

// The exit codes of doctor: the worst level, 0 if all is ok.
const (
	exitWarnings = 1
	exitBroken   = 2 // also: the store could not be examined, or the findings not be written
)

// examineTime bounds an examination. A store that is up needs a fraction of a second;
// servers that do not answer need a few seconds each, at the same time.
const examineTime = 30 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a store: settings, rights, state, clock",
		Long: `doctor examines the store: are its settings, the rights of this user and its state good
for locks? It reads and measures, and changes nothing.

Each check is ok, a warning or broken. What is not ok has two more lines: what it means for
a lock, and the line that mends it.

Exit code: 0 all is ok, 1 there are warnings, 2 something is broken, the store could not be
examined, or the findings could not be written.`,
		Example: `  pawl doctor -s redis://localhost:6379
  pawl doctor --json | jq '.findings[] | select(.level != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON object")
	return cmd
}

// An examination is what doctor --json prints.
type examination struct {
	Store    string           `json:"store"` // without secrets
	Level    doctor.Level     `json:"level"` // the worst
	Findings []doctor.Finding `json:"findings"`
}

func (a *app) doctor(ctx context.Context) error {
	s, err := a.findStore()
	if err != nil {
		return &exitError{exitBroken, err}
	}
	if s.from == "-s" && s.secret() {
		a.say("warning: the password in -s shows in ps; use PAWL_STORE or PAWL_STORE_FILE")
	}
	found, err := examine(ctx, s)
	if err != nil {
		return &exitError{exitBroken, err}
	}
	e := examination{s.shown, doctor.Worst(found), found}
	if a.json {
		err = a.printJSON(e)
	} else {
		err = a.printRaw([]byte(e.text(a.coloured())))
	}
	if err != nil { // 0 and 1 are verdicts
		return &exitError{exitBroken, err}
	}
	a.code = map[doctor.Level]int{doctor.Warning: exitWarnings, doctor.Broken: exitBroken}[e.Level]
	return nil
}

// examine examines a store for at most examineTime, even if its client does not return.
func examine(ctx context.Context, s store) ([]doctor.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	type outcome struct {
		found []doctor.Finding
		err   error
	}
	done := make(chan outcome, 1)
	go func() { // ends soon after ctx, or with the process
		found, err := doctor.Examine(ctx, s.url)
		done <- outcome{found, err}
	}()
	select {
	case o := <-done:
		if errors.Is(o.err, context.DeadlineExceeded) {
			break
		}
		return o.found, o.err
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("store %s: no answer within %v", s.shown, examineTime)
}

var levelColours = map[doctor.Level]string{doctor.OK: "\x1b[32m", doctor.Warning: "\x1b[33m", doctor.Broken: "\x1b[31m"}

// text formats an examination for people.
func (e examination) text(coloured bool) string {
	nodes := false
	for _, f := range e.Findings {
		nodes = nodes || f.Node != ""
	}
	rows := make([][]string, len(e.Findings))
	for i, f := range e.Findings {
		rows[i] = []string{f.Level.String(), f.Check}
		if nodes {
			rows[i] = append(rows[i], dash(f.Node))
		}
		rows[i] = append(rows[i], f.Found)
	}
	var out strings.Builder
	count := map[doctor.Level]int{}
	lines := strings.SplitAfter(columns(rows), "\n") // one for each row, since line ends are escaped
	for i, f := range e.Findings {
		count[f.Level]++
		line := lines[i]
		if word := f.Level.String(); coloured {
			line = levelColours[f.Level] + word + "\x1b[0m" + strings.TrimPrefix(line, word)
		}
		out.WriteString(line)
		if f.Level != doctor.OK {
			out.WriteString(columns([][]string{{"", "means", f.Meaning}, {"", "mend", f.Mend}}))
		}
	}
	out.WriteString(summary(count) + "\n")
	return out.String()
}

// summary counts the findings by level, the worst first.
func summary(count map[doctor.Level]int) string {
	var parts []string
	if n := count[doctor.Broken]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d broken", n))
	}
	switch n := count[doctor.Warning]; {
	case n == 1:
		parts = append(parts, "1 warning")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d warnings", n))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d ok", count[doctor.OK])), ", ")
}
