package doctortest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
)

// faults are the checks of which the tests of a package have seen a fault, and whether a
// mend of theirs was applied.
var faults = record{applied: map[string]bool{}}

type record struct {
	mu      sync.Mutex // guards applied
	applied map[string]bool
}

func (r *record) note(check string, applied bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied[check] = r.applied[check] || applied
}

// Applied says that a test has done what the mends of checks say, and looked again. Mended
// says it too.
func Applied(checks ...string) {
	for _, check := range checks {
		faults.note(check, true)
	}
}

// Unapplied returns the exit code of tests, given theirs. It fails where they saw a fault of
// a check and applied no mend of it, unless because says why that cannot be done here. Tests
// that were chosen by name show nothing.
func Unapplied(code int, because map[string]string) int {
	if run := flag.Lookup("test.run"); code != 0 || run != nil && run.Value.String() != "" {
		return code
	}
	faults.mu.Lock()
	defer faults.mu.Unlock()
	for _, check := range slices.Sorted(maps.Keys(faults.applied)) {
		if because[check] == "" && !faults.applied[check] {
			fmt.Fprintf(os.Stderr, "no test has applied a mend of %q and looked again\n", check)
			code = 1
		}
	}
	return code
}
