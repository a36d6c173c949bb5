// Package examtest is what the tests of the examiners of databases share, beyond package
// doctortest.
package examtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
)

// One returns the finding of one check. There must be exactly one.
func One(t testing.TB, store, check string) doctor.Finding {
	t.Helper()
	var got []doctor.Finding
	for _, f := range doctortest.Examine(t, store) {
		if f.Check == check {
			got = append(got, f)
		}
	}
	if len(got) != 1 {
		t.Fatalf("%d findings of check %q", len(got), check)
	}
	return got[0]
}

// Expect makes one check of a store and compares the finding, as Compare does.
func Expect(t testing.TB, store, check string, level doctor.Level, found, meaning string) (mend string) {
	t.Helper()
	return Compare(t, One(t, store, check), level, found, meaning)
}

// Compare compares a finding: its level, and words that its texts must have. It returns the
// line that mends it.
func Compare(t testing.TB, f doctor.Finding, level doctor.Level, found, meaning string) (mend string) {
	t.Helper()
	if f.Level != level || !strings.Contains(f.Found, found) || !strings.Contains(f.Meaning, meaning) {
		t.Errorf("want %v, %q, %q; got %s", level, found, meaning, doctortest.Text(f))
	}
	return f.Mend
}

// Clean expects findings without fault, except those of the checks named.
func Clean(t testing.TB, store string, except ...string) {
	t.Helper()
	doctortest.Clean(t, doctortest.Examine(t, store), except...)
}

// Migrate makes the tables of a store, as "pawl migrate" does.
func Migrate(t testing.TB, store string) {
	t.Helper()
	u, err := driver.ParseURL(store)
	if err != nil {
		t.Fatal(err)
	}
	open, ok := driver.Lookup(u.Scheme)
	if !ok {
		t.Fatalf("no engine has the scheme %s", u.Scheme)
	}
	e, err := open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.(interface{ Migrate(context.Context) error }).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Statements splits a mend into its statements.
func Statements(mend string) (all []string) {
	for text := range strings.SplitSeq(mend, ";") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// Until waits until a check has a level, for what a server does on its own.
func Until(t testing.TB, store, check string, level doctor.Level) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		f := One(t, store, check)
		if f.Level == level {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s", doctortest.Text(f))
		}
		// Poll: there is no notification. InnoDB repeats an old list of transactions to
		// clients that ask again within 100 ms.
		time.Sleep(200 * time.Millisecond)
	}
}
