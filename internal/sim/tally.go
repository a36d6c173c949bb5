package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Tally counts what was simulated.
type Tally struct {
	Episodes   int
	Operations int
	Grants     int
	Losses     int
	Confirms   int
	Recipes    int
	Simulated  time.Duration
	Faults     map[string]int
	ByScale    []ScaleTally
	Undecided  int // windows of which linearizability was not decided in time
}

// A ScaleTally counts the episodes of one range of TTLs.
type ScaleTally struct {
	Episodes, Operations int
	Simulated, Took      time.Duration
}

// NewTally returns an empty tally.
func NewTally() *Tally {
	return &Tally{Faults: map[string]int{}, ByScale: make([]ScaleTally, len(scales))}
}

// Add adds another tally.
func (t *Tally) Add(o *Tally) {
	t.Episodes += o.Episodes
	t.Operations += o.Operations
	t.Grants += o.Grants
	t.Losses += o.Losses
	t.Confirms += o.Confirms
	t.Recipes += o.Recipes
	t.Simulated += o.Simulated
	t.Undecided += o.Undecided
	for k, n := range o.Faults {
		t.Faults[k] += n
	}
	for i, s := range o.ByScale {
		t.ByScale[i].Episodes += s.Episodes
		t.ByScale[i].Operations += s.Operations
		t.ByScale[i].Simulated += s.Simulated
		t.ByScale[i].Took += s.Took
	}
}

// Years returns the simulated time in years.
func Years(d time.Duration) float64 { return d.Hours() / 24 / 365.25 }

// String returns the tally as a table.
func (t *Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "simulated years  %.3f\nepisodes         %d\nacquires         %d\ngrants           %d\nlosses           %d\nconfirms         %d\nrecipe calls     %d\nundecided        %d\n",
		Years(t.Simulated), t.Episodes, t.Operations, t.Grants, t.Losses, t.Confirms, t.Recipes, t.Undecided)
	b.WriteString("\nTTL               episodes   acquires      years    seconds\n")
	for i, s := range t.ByScale {
		fmt.Fprintf(&b, "%-16s %9d %10d %10.3f %10.1f\n", scales[i].name, s.Episodes, s.Operations, Years(s.Simulated), s.Took.Seconds())
	}
	b.WriteString("\nfaults\n")
	for _, k := range slices.Sorted(maps.Keys(t.Faults)) {
		fmt.Fprintf(&b, "  %-22s %d\n", k, t.Faults[k])
	}
	return b.String()
}
