package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/verify"
	"github.com/pawl-go/pawl/internal/history"
)

// trialJSON is one engine of verify --self-test --json.
type trialJSON struct {
	Bug     string       `json:"bug"` // empty: the sound engine
	Text    string       `json:"text,omitempty"`
	Passed  bool         `json:"passed"`
	Promise history.Rule `json:"promise,omitempty"` // that was found broken
	Found   string       `json:"found,omitempty"`
	Error   string       `json:"error,omitempty"`
	Seconds float64      `json:"seconds"`
}

// runSelfTest shows that verify finds every planted bug, and nothing in a sound engine.
func (v *verification) runSelfTest(ctx context.Context) error {
	trials := verify.Trials()
	var n atomic.Int64
	begun := time.Now()
	bar := v.progress(func() (string, float64) {
		return fmt.Sprintf("%d of %d engines, %s", n.Load(), len(trials), time.Since(begun).Round(time.Second)), float64(n.Load()) / float64(len(trials))
	})
	defer bar.close()
	missed, sound, all := 0, 0, []trialJSON{}
	for i := range trials {
		t := &trials[i]
		t.Run(ctx, v.config)
		if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
			return &exitError{code: exitSignal + int(i.sig)}
		}
		if !t.Passed() {
			missed++
		} else if t.Bug == "" {
			sound++
		}
		all = append(all, asTrialJSON(t))
		bar.clear()
		if !v.json && (t.Bug != "" || !t.Passed()) {
			v.showTrial(t)
		}
		n.Add(1)
	}
	if v.json {
		_ = v.printJSON(all)
	} else {
		_ = v.print("%d engines: %d wrong; the sound one passed %d times\n", len(trials), missed, sound)
	}
	if v.unwritten != nil { // 0 and 1 are verdicts
		return cannotRun(v.unwritten)
	}
	if missed > 0 {
		return &exitError{code: exitViolated}
	}
	return nil
}

func asTrialJSON(t *verify.Trial) trialJSON {
	j := trialJSON{Bug: t.Bug, Text: t.Text, Passed: t.Passed(), Seconds: t.Took.Seconds()}
	if t.Found != nil {
		j.Promise, j.Found = t.Found.Rule, t.Found.Text
	}
	if t.Err != nil {
		j.Error = t.Err.Error()
	}
	return j
}

// showTrial prints one line about a trial.
func (v *verification) showTrial(t *verify.Trial) {
	name := t.Bug
	if name == "" {
		name = "the sound engine"
	}
	switch {
	case t.Err != nil:
		_ = v.print("%-40s  could not run: %s\n", name, t.Err.Error())
	case t.Found == nil:
		_ = v.print("%-40s  NOT FOUND in %s\n", name, t.Took.Round(time.Second))
	case t.Bug == "":
		_ = v.print("%-40s  WRONGLY found: %s: %s\n", name, string(t.Found.Rule), t.Found.Text)
	default:
		_ = v.print("%-40s  found in %4s: %s\n", name, t.Took.Round(time.Second), string(t.Found.Rule))
	}
}
