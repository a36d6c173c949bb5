package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// selfTest is the result of verify --self-test.
type selfTest struct {
	Bugs             []trial
	Found            int
	Sound, SoundRuns int // how often the sound engine passed, and ran
}

// A trial is one engine, as verify --self-test --json prints it.
type trial struct {
	Bug     string  `json:"bug"`
	Text    string  `json:"text"`
	Passed  bool    `json:"passed"`
	Promise string  `json:"promise"`
	Found   string  `json:"found"`
	Error   string  `json:"error"`
	Seconds float64 `json:"seconds"`
}

// runSelfTest runs the self-test.
func (t *trust) runSelfTest() error {
	pawl, err := t.pawl()
	if err != nil {
		return err
	}
	cmd := exec.Command(pawl, "verify", "--self-test", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		return err
	}
	var trials []trial
	if err := json.Unmarshal(out, &trials); err != nil {
		return err
	}
	var s selfTest
	for _, x := range trials {
		if x.Bug == "" {
			s.SoundRuns++
			if x.Passed {
				s.Sound++
			} else {
				fmt.Println("the sound engine:", x.Promise, x.Found, x.Error)
			}
			continue
		}
		x.Found = "" // the page shows the promise
		s.Bugs = append(s.Bugs, x)
		if x.Passed {
			s.Found++
		}
		fmt.Printf("%-50s %5.0f s %s%s\n", x.Bug, x.Seconds, x.Promise, x.Error)
	}
	t.SelfTest = ran("pawl verify --self-test", s)
	if s.Found < len(s.Bugs) || s.Sound < s.SoundRuns {
		return fmt.Errorf("%d of %d bugs found, the sound engine passed %d of %d times", s.Found, len(s.Bugs), s.Sound, s.SoundRuns)
	}
	return nil
}
