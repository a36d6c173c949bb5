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

// The limits for the cost of pawl run. They grow with the time that starting pawl
// takes on this machine: pawl run starts pawl twice, the second time as the
// guardian. The start of pawl itself is limited relative to that of a small
// program, generously because some machines are slower at starting large ones. The
// store's file is in memory where possible, because a disk that other processes
// write to delays file operations by milliseconds.
const (
	maxCost     = 15 * time.Millisecond
	timesToRun  = 2.5 // times two starts of pawl: 1.5 to 1.9, on an idle and on a busy machine
	timesToOpen = 4.0 // 1.6 on an idle machine, 0.6 to 1.1 on a busy one
)

// yardstick runs a command as a child process.
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

// TestNoRaceRunCostsLittleMoreThanTheCommand builds the real command, because the
// test binary is larger and starts more slowly.
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
	store := dir
	if inMemory, err := os.MkdirTemp("/dev/shm", "pawl"); err == nil {
		store = inMemory
		t.Cleanup(func() { os.RemoveAll(inMemory) })
	}
	took := func(name string, args ...string) time.Duration {
		t.Helper()
		cmd := exec.Command(name, args...)
		// Like the local store, but in another place.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PAWL_STORE=sqlite://" + filepath.Join(store, "locks.db")}
		from := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return time.Since(from)
	}
	took(pawl, "run", "x", "--", program) // creates the file
	for round := 1; ; round++ {           // a noisy machine may be quiet in the next round
		const runs = 40
		var alone, small, large, locked []time.Duration
		for range runs {
			alone = append(alone, took(program))
			small = append(small, took(plain, "again", program))
			large = append(large, took(pawl, "version"))
			locked = append(locked, took(pawl, "run", "x", "--", program))
		}
		for _, all := range [][]time.Duration{alone, small, large, locked} {
			slices.Sort(all)
		}
		median := func(all []time.Duration) float64 { return float64(all[runs/2]) }
		run, most := median(locked)-median(alone), max(float64(maxCost), timesToRun*2*median(large))
		open, mostToOpen := median(large), max(float64(maxCost)/3, timesToOpen*median(small))
		t.Logf("true %v, two small programs and true %v, pawl version %v (at most %v), pawl run x -- true %v (at most %v more than true)",
			alone[runs/2], small[runs/2], large[runs/2], time.Duration(mostToOpen), locked[runs/2], time.Duration(most))
		if run <= most && open <= mostToOpen {
			return
		}
		if round == 3 {
			t.Fatal("the median of a run, or of a start, costs more than that")
		}
	}
}
