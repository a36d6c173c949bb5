// Package doctortest is what the tests of the examiners share: they examine a store, and
// compare findings.
package doctortest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
)

// Limit is what the command gives an examination, on a machine five times slower.
const Limit = 150 * time.Second

// Main runs tests, more of them in parallel than there are processors: most wait for
// servers to start. Then it fails if a mend was not applied, see Unapplied.
func Main(m *testing.M, because map[string]string) {
	flag.Parse()
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	os.Exit(Unapplied(m.Run(), because))
}

// Examine returns the findings about a store that can be examined.
func Examine(t testing.TB, store string) []doctor.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	found, err := doctor.Examine(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	WellFormed(t, found)
	return found
}

// WellFormed checks what every finding has: one that is not ok says what it means and what
// to do, and every text is one line.
func WellFormed(t testing.TB, found []doctor.Finding) {
	t.Helper()
	for _, f := range found {
		bad := f.Level != doctor.OK
		if bad && measured[f.Check] == "" {
			faults.note(f.Check, false)
		}
		if f.Check == "" || f.Found == "" || bad != (f.Meaning != "") || bad != (f.Mend != "") || strings.ContainsAny(f.Found+f.Meaning+f.Mend, "\n\r") {
			t.Errorf("malformed: %+v", f)
		}
	}
}

// Find returns the first finding of a check, at a node unless that is "".
func Find(t testing.TB, found []doctor.Finding, check, node string) doctor.Finding {
	t.Helper()
	for _, f := range found {
		if f.Check == check && (node == "" || f.Node == node) {
			return f
		}
	}
	t.Fatalf("no finding %q %s:\n%s", check, node, Text(found...))
	return doctor.Finding{}
}

// Expect checks that a finding has a level and that its texts contain words, and returns
// it.
func Expect(t testing.TB, found []doctor.Finding, check, node string, level doctor.Level, words ...string) doctor.Finding {
	t.Helper()
	f := Find(t, found, check, node)
	text := f.Found + "\n" + f.Meaning + "\n" + f.Mend
	if f.Level != level || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
		t.Errorf("%s is %+v, want %v with %q", check, f, level, words)
	}
	return f
}

// Clean checks that everything is ok but the given checks.
func Clean(t testing.TB, found []doctor.Finding, but ...string) {
	t.Helper()
	for _, f := range found {
		if f.Level != doctor.OK && !slices.Contains(but, f.Check) {
			t.Errorf("not ok: %s", Text(f))
		}
	}
}

// Mended compares examinations before and after a mend was applied: the finding that it was
// for is no fault any more, and no other one but the given checks is worse. What was measured
// may be anything.
func Mended(t testing.TB, before, after []doctor.Finding, check, node string, but ...string) {
	t.Helper()
	type key struct{ check, node string }
	was := map[key]doctor.Level{}
	for _, f := range before {
		k := key{f.Check, f.Node}
		was[k] = max(was[k], f.Level)
	}
	faults.note(check, true)
	if was[key{check, node}] == doctor.OK {
		t.Errorf("%q %s was no fault before it was mended:\n%s", check, node, Text(before...))
	}
	was[key{check, node}] = doctor.OK
	for _, f := range after {
		if !isMeasured(f) && !slices.Contains(but, f.Check) && f.Level > was[key{f.Check, f.Node}] {
			t.Errorf("after %q %s was mended: %s", check, node, Text(f))
		}
	}
}

// measured are the checks of times, which a busy machine fails rightly, with what they say
// when they have measured something.
var measured = map[string]string{"round trip": "the median of", "disk": "writes took longer than"}

func isMeasured(f doctor.Finding) bool {
	words := measured[f.Check]
	return words != "" && strings.Contains(f.Found, words)
}

// Measured checks that a time was measured, whatever it is.
func Measured(t testing.TB, found []doctor.Finding, check, node string) {
	t.Helper()
	if f := Find(t, found, check, node); !isMeasured(f) {
		t.Errorf("%s of %s was not measured: %s", check, node, Text(f))
	}
}

// CleanButTimes is Clean, and a time that was measured may be anything.
func CleanButTimes(t testing.TB, found []doctor.Finding, but ...string) {
	t.Helper()
	Clean(t, slices.DeleteFunc(slices.Clone(found), isMeasured), but...)
}

// Text writes findings, each on a line.
func Text(found ...doctor.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-8v %-22s %-16s %s | %s | %s\n", f.Level, f.Check, f.Node, f.Found, f.Meaning, f.Mend)
	}
	return b.String()
}

// Eventually waits until ok, for what a server does on its own.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never %s", what)
		}
	}
}

// Held takes a lock. What it returns checks, after a mend, that it is held still.
func Held(t testing.TB, store string) (still func()) {
	t.Helper()
	locks, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	lease, err := locks.Mutex("held", pawl.WithTTL(10*time.Minute)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := lease.Confirm(t.Context()); err != nil {
			t.Errorf("the mend costs a lock: %v", err)
		}
	}
}
