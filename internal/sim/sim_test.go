package sim_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/pawl-go/pawl/internal/sim"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // with more, goroutines of one moment run in any order
	os.Exit(m.Run())
}

// quickSeeds returns the first n seeds from one on whose episodes are short.
func quickSeeds(from uint64, n int) (seeds []uint64) {
	for seed := from; len(seeds) < n; seed++ {
		if sim.Quick(seed) {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

func TestASimulationOfFixedSeedsBreaksNoRule(t *testing.T) {
	const n = 12 // it computes all the time, beside tests that wait for servers
	total := sim.NewTally()
	for _, seed := range quickSeeds(1, n) {
		o := sim.Run(t, seed)
		total.Add(o.Tally)
		for _, b := range o.Breaches {
			t.Errorf("seed %d, %s: %s, at %v: %s", seed, o.Setting, b.Rule, b.At, b.Text)
		}
	}
	if total.Grants < 100*n || total.Losses == 0 || total.Recipes == 0 || len(total.Faults) < 10 {
		t.Errorf("too little happened:\n%v", total)
	}
	t.Logf("\n%v", total)
}

// command returns this test program with arguments.
func command(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), self, args...)
}
