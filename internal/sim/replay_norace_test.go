//go:build !race

package sim_test

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/sim"
)

// The race detector has the runtime draw which goroutine runs next, and so an instant with
// several of them cannot be repeated.
func TestNoRaceASeedIsReplayedExactly(t *testing.T) {
	for _, seed := range quickSeeds(1000, 6) {
		first, second := sim.Run(t, seed), sim.Run(t, seed)
		if first.Hash() != second.Hash() {
			t.Errorf("seed %d: two histories in one process: %s", seed, difference(first, second))
		}
		child := start(t, order{First: seed, Step: 1, Episodes: 1})
		if r := child.wait(t); r.Hash != first.Hash() {
			t.Errorf("seed %d: another process has another history", seed)
		}
	}
}

// difference shows where two histories differ first.
func difference(a, b *sim.Outcome) string {
	one, other := strings.SplitAfter(a.Text(), "\n"), strings.SplitAfter(b.Text(), "\n")
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			return one[i] + other[i]
		}
	}
	return "one is longer"
}
