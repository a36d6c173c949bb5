//go:build !race && unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A lock that costs more than this would not be taken for small things. An idle machine
// needs a sixth of it for the yardstick, which starts as many processes and does nothing
// else; a machine that is slower at that is given as much longer.
const (
	dearest = 15 * time.Millisecond
	times   = 6
)

// yardstick runs a command in a process of its own, which is a child of this one.
const yardstick = `package main

import (
	"os"
	"os/exec"
)

func main() {
	args := os.Args[1:]
	if args[0] == "again" {
		args[0] = os.Args[0]
	}
	if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
		os.Exit(1)
	}
}
`

// TestNoRaceRunCostsLittleMoreThanTheCommand builds the real command: the test
// binary is larger and starts later.
func TestNoRaceRunCostsLittleMoreThanTheCommand(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "yardstick.go")
	if err := os.WriteFile(source, []byte(yardstick), 0o600); err != nil {
		t.Fatal(err)
	}
	pawl, plain := filepath.Join(dir, "pawl"), filepath.Join(dir, "yardstick")
	for program, from := range map[string]string{pawl: ".", plain: source} {
		build := exec.Command("go", "build", "-trimpath", "-o", program, from)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	took := func(name string, args ...string) time.Duration {
		t.Helper()
		cmd := exec.Command(name, args...)
		// The local store in all but its place, which is the user's own.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PAWL_STORE=sqlite://" + filepath.Join(dir, "locks.db")}
		from := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return time.Since(from)
	}
	took(pawl, "run", "x", "--", program) // makes the file
	var more, most time.Duration
	for range 3 { // a noisy machine may be quiet the next time
		const runs = 40
		var b, y, l []time.Duration
		for range runs {
			b = append(b, took(program))
			y = append(y, took(plain, "again", program))
			l = append(l, took(pawl, "run", "x", "--", program))
		}
		for _, all := range [][]time.Duration{b, y, l} {
			slices.Sort(all)
		}
		bare, stick, locked := b[runs/2], y[runs/2], l[runs/2]
		more, most = locked-bare, max(dearest, times*stick)
		t.Logf("true %v, the yardstick %v, pawl run x -- true %v: %v more, at most %v", bare, stick, locked, more, most)
		if more <= most {
			return
		}
	}
	t.Errorf("the median of pawl run costs %v more than the command alone, at most %v is allowed", more, most)
}
