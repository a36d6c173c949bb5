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

// ExpectLeaks has goroutines that stay reported after a second. It is for a process
// in which they do stay.
func ExpectLeaks() { ourGrace, clientGrace = ourGrace/2, ourGrace/2 }
