package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// simulated is what make sim or make mutants prints.
type simulated struct {
	Lines   []string
	Seconds float64
}

// runSim runs the simulation.
func (t *trust) runSim() error {
	r, err := simulate("the first seed was", "TestSoakSimulation", "PAWL_SIM="+t.sim.String())
	t.Sim = ran("make sim SIM="+t.sim.String(), r)
	return err
}

// runMutants runs the simulation with planted bugs.
func (t *trust) runMutants() error {
	r, err := simulate("| mutant ", "TestSoakEveryMutantIsFound", "PAWL_MUTANTS=all")
	t.Mutants = ran("make mutants", r)
	return err
}

// simulate runs a test of the simulation, and returns the lines of its output from the one
// that begins with first.
func simulate(first, test, setting string) (r simulated, err error) {
	cmd := exec.Command("go", "test", "-count=1", "-timeout=0", "-v", "-run=^"+test+"$", "./internal/sim")
	cmd.Env = append(os.Environ(), setting)
	cmd.Stderr = os.Stderr
	begun := time.Now()
	out, err := cmd.Output()
	r.Seconds = time.Since(begun).Seconds()
	fmt.Print(string(out))
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, " \n")
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "PASS") {
			break
		}
		if strings.HasPrefix(line, first) || len(r.Lines) > 0 {
			r.Lines = append(r.Lines, line)
		}
	}
	if err == nil && len(r.Lines) == 0 {
		err = fmt.Errorf("%s: nothing was printed", test)
	}
	return r, err
}
