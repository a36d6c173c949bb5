package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// source returns a mutant's file, as it is and with the bug.
func (m *mutant) source() (path, right, wrong string, err error) {
	path, err = filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", "", "", err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", "", err
	}
	right = string(b)
	if n := strings.Count(right, m.old); n != 1 {
		return "", "", "", fmt.Errorf("%q: the text to replace is %d times in %s", m.name, n, m.file)
	}
	return path, right, strings.Replace(right, m.old, m.new, 1), nil
}

func TestEveryMutantStillFitsTheSource(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		if _, _, _, err := m.source(); err != nil {
			t.Error(err)
		}
		if m.wrong == "" || names[m.name] || m.old == m.new {
			t.Errorf("%q: named twice, without an explanation, or no change", m.name)
		}
		names[m.name] = true
	}
	if len(mutants) < 16 {
		t.Errorf("%d mutants, not 16", len(mutants))
	}
}

// A mutant must be found in so many short episodes, and in so much processor time: other
// programs on the machine must not matter.
const (
	mutantEpisodes = 150
	mutantTime     = time.Minute
)

// TestSoakEveryMutantIsFound builds the simulation with each mutant, and runs it until it
// breaks a rule. The source itself is not changed: the compiler is given another file.
func TestSoakEveryMutantIsFound(t *testing.T) {
	only := os.Getenv("PAWL_MUTANTS")
	if only == "" {
		t.Skip("set PAWL_MUTANTS to all, or to a part of a name")
	}
	fmt.Println("| mutant | what is wrong | rule that found it | seed | after |\n|---|---|---|---|---|") // for docs/trust.md too
	for _, m := range mutants {
		if only != "all" && !strings.Contains(m.name, only) {
			continue
		}
		program := m.build(t)
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestChild$", "-test.timeout=0")
		r := startProgram(t, cmd, order{First: 1, Step: 1, Episodes: mutantEpisodes, Quick: true}).wait(t)
		took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if len(r.Breaches) == 0 || took > mutantTime {
			t.Errorf("%q was not found in %d episodes and %v: %s", m.name, r.Tally.Episodes, took, m.wrong)
			continue
		}
		b := r.Breaches[0]
		fmt.Printf("| %s | %s | %s | %d | %.1f s |\n", m.name, m.wrong, b.Rule, r.Seed, took.Seconds())
		if only != "all" {
			t.Log(b.Text)
		}
	}
}

// build builds this test program with the mutant in place of its file.
func (m *mutant) build(t *testing.T) (program string) {
	t.Helper()
	path, _, wrong, err := m.source()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	program = filepath.Join(dir, "mutant.test")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err == nil {
		err = os.WriteFile(overlay, b, 0o600)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(wrong), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q does not build: %v\n%s", m.name, err, out)
	}
	return program
}
