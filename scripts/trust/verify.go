package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/internal/teststores"
)

// verified is the result of verify on one store.
type verified struct {
	Store, Setup, Version string
	Outcome               outcome
}

// An outcome is what verify --json prints, as far as it is used here.
type outcome struct {
	Kept       bool        `json:"kept"`
	Seconds    float64     `json:"seconds"`
	Counts     counts      `json:"counts"`
	Promises   []promise   `json:"promises"`
	Violations []violation `json:"violations"`
}

type counts struct {
	Operations  int            `json:"operations"`
	Grants      int            `json:"grants"`
	Losses      int            `json:"losses"`
	Writes      int            `json:"writes"`
	StaleWrites int            `json:"stale_writes"`
	Workers     int            `json:"workers"`
	Faults      map[string]int `json:"faults"`
	FaultsInAll int            `json:"faults_in_all"`
}

type promise struct {
	Promise   string `json:"promise"`
	Kept      bool   `json:"kept"`
	Checked   int    `json:"checked"`
	Of        string `json:"of"`
	Undecided int    `json:"undecided"`
}

type violation struct {
	Promise string `json:"promise"`
	Text    string `json:"text"`
}

// runVerify runs verify on every store, one after the other.
func (t *trust) runVerify() error {
	var all []verified
	var broken []string
	for _, s := range teststores.All() {
		if !strings.Contains(s.Name, t.stores) {
			continue
		}
		v, err := t.verify(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		c := v.Outcome.Counts
		fmt.Printf("%-15s %-8s kept %-5v %8d operations %4d faults %4d losses\n", v.Store, v.Version, v.Outcome.Kept, c.Operations, c.FaultsInAll, c.Losses)
		if !v.Outcome.Kept {
			broken = append(broken, s.Name)
			for _, x := range v.Outcome.Violations {
				fmt.Printf("  %s: %s\n", x.Promise, x.Text)
			}
		}
		all = append(all, v)
	}
	t.Verify = ran("make trust PARTS=verify TRUST="+t.length.String(), merge(t.Verify.Result, all, func(v verified) string { return v.Store }))
	if len(broken) > 0 {
		return fmt.Errorf("a promise was broken on %s", strings.Join(broken, ", "))
	}
	return nil
}

// verify starts a store and runs verify on it.
func (t *trust) verify(s teststores.Store) (v verified, err error) {
	pawl, err := t.pawl()
	if err != nil {
		return v, err
	}
	v.Store, v.Setup = s.Name, s.Setup
	var failed error
	err = testserver.RunOutsideTest(func(tb testing.TB) {
		var url string
		url, v.Version = s.Start(tb)
		cmd := exec.Command(pawl, "verify", "--json", "--for", t.length.String())
		cmd.Env = append(os.Environ(), "PAWL_STORE="+url)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			failed = err
			return
		}
		failed = json.Unmarshal(out, &v.Outcome)
	})
	if err == nil {
		err = failed
	}
	return v, err
}
