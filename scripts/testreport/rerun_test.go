package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatPassesTwiceAloneIsUnstable(t *testing.T) {
	good, printed := run(t, true,
		"run|TestShaky", "run|TestShaky/late", "output|TestShaky/late|    a_test.go:9: took 3s", "fail|TestShaky/late", "fail|TestShaky", "fail|")
	if !good {
		t.Error("an unstable test fails the run")
	}
	expect(t, printed, "    a_test.go:9: took 3s\n"+
		"run again, alone, 1 of 2: p TestShaky: passed\nrun again, alone, 2 of 2: p TestShaky: passed\n"+
		"unstable: p TestShaky/late\n\ta_test.go:9: took 3s\nunstable: p TestShaky\n"+
		"tests ok: 0 passed, 0 failed, 1 unstable, 0 skipped; 1s\n")
}

func TestWhatNoBusyMachineExplainsIsNotRunAgain(t *testing.T) {
	for _, said := range []string{
		"WARNING: DATA RACE", "panic: runtime error", "fatal error: all goroutines are asleep",
		"    a_test.go:9: two hold the name", "    a_test.go:9: both hold", "    a_test.go:9: 3 hold it at the same time",
		"    a_test.go:9: token 7 was given twice", "    a_test.go:9: n1 is held twice", "    a_test.go:9: overlap on a",
	} {
		good, printed := run(t, true, "run|TestShaky", "output|TestShaky|"+said, "fail|TestShaky", "fail|")
		if good || !strings.Contains(printed, "not run again: p TestShaky\n") {
			t.Errorf("%q: good %v, printed\n%s", said, good, printed)
		}
	}
}

func TestAPackageThatWasCutShortIsNotRunAgain(t *testing.T) {
	for _, end := range [][]string{{"fail|"}, {}} {
		events := append([]string{"run|TestShaky", "fail|TestShaky", "run|TestB"}, end...)
		if good, printed := run(t, true, events...); good || !strings.Contains(printed, "not run again: p TestShaky\n") {
			t.Errorf("good %v, printed\n%s", good, printed)
		}
	}
}

func TestManyFailuresAreNoChance(t *testing.T) {
	var events []string
	for i := range maxReruns + 1 {
		events = append(events, fmt.Sprintf("run|TestShaky%d", i), fmt.Sprintf("fail|TestShaky%d", i))
	}
	good, printed := run(t, true, append(events, "fail|")...)
	if good || strings.Contains(printed, "alone") {
		t.Errorf("good %v, printed\n%s", good, printed)
	}
}

// TestARealRun runs the command on a module with a test that fails once, one that
// fails twice, and finally a compile error.
func TestARealRun(t *testing.T) {
	dir, command := t.TempDir(), filepath.Join(t.TempDir(), "testreport")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n")
	write("m_test.go", `package m

import (
	"os"
	"testing"
)

func failing(t *testing.T, times int) {
	if n, _ := os.ReadFile(t.Name()); len(n) < times {
		os.WriteFile(t.Name(), append(n, 'x'), 0o666)
		t.Errorf("time %d", len(n)+1)
	}
}

func TestGood(t *testing.T)  {}
func TestOnce(t *testing.T)  { failing(t, 1) }
func TestTwice(t *testing.T) { failing(t, 2) }
`)
	report := func(wantGood bool, args ...string) string {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CI=true", "GOFLAGS=", "TESTREPORT="+dir)
		out, err := cmd.CombinedOutput()
		if (err == nil) != wantGood {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	report(true, "-count=1", "-skip=Twice", "./...")
	const once = "unstable: m TestOnce\n\tm_test.go:11: time 1\n"
	expect(t, read("unstable.txt"), once)
	printed := report(false, "-count=1", "-skip=Once", "./...")
	if !strings.HasSuffix(strings.SplitAfter(printed, "skipped;")[0], "failed: m TestTwice\n\tm_test.go:11: time 1\ntests FAILED: 1 passed, 1 failed, 0 unstable, 0 skipped;") {
		t.Errorf("printed\n%s", printed)
	}
	expect(t, read("unstable.txt"), once) // failures are not listed there
	if n := strings.Count(read("times.txt"), " m\n"); n != 2 {
		t.Errorf("times of %d runs of two", n)
	}
	write("m.go", "package m\n\nnonsense\n")
	report(false, "-count=1", "./...")
}
