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

// A lock that costs more than this would not be taken for small things. It is what
// an idle machine needs for true this many times over; one that is busy with other
// things, and needs longer for true, is given as much longer.
const (
	dearest = 15 * time.Millisecond
	times   = 36
)

// TestNoRaceRunCostsLittleMoreThanTheCommand builds the real command: the test
// binary is larger and starts later.
func TestNoRaceRunCostsLittleMoreThanTheCommand(t *testing.T) {
	dir := t.TempDir()
	pawl := filepath.Join(dir, "pawl")
	build := exec.Command("go", "build", "-trimpath", "-o", pawl, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
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
	var more, most, bare, locked time.Duration
	for range 3 { // a noisy machine may be quiet the next time
		const runs = 40
		var b, l []time.Duration
		for range runs {
			b = append(b, took(program))
			l = append(l, took(pawl, "run", "x", "--", program))
		}
		slices.Sort(b)
		slices.Sort(l)
		bare, locked = b[runs/2], l[runs/2]
		more, most = locked-bare, max(dearest, times*bare)
		t.Logf("true %v, pawl run x -- true %v: %v more", bare, locked, more)
		if more <= most {
			return
		}
	}
	t.Errorf("the median of pawl run costs %v more than the command alone (%v and %v), at most %v is allowed", more, locked, bare, most)
}
