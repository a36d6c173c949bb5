package drivertest

import (
	"slices"
	"testing"
)

// RunLaw runs the cases of one law alone.
func RunLaw(t *testing.T, h Harness, law int) {
	t.Helper()
	h.run(t, slices.DeleteFunc(cases(), func(c lawCase) bool { return c.law != law }))
}

// ExpectLeaks shortens the grace period for goroutines, for a process in which some
// never end.
func ExpectLeaks() { ourGrace, clientGrace = ourGrace/2, ourGrace/2 }
