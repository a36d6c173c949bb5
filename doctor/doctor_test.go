package doctor_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
)

// fresh returns a scheme that no earlier run of these tests has registered:
// registrations stay.
func fresh(prefix string) string { return strings.ToLower(prefix + rand.Text()) }

// panics reports whether f panics.
func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

func TestARegisteredExaminerSeesTheURLWithoutItsTTL(t *testing.T) {
	scheme, seen := fresh("x"), ""
	doctor.Register(scheme, func(_ context.Context, u *url.URL) ([]doctor.Finding, error) {
		seen = u.String()
		return []doctor.Finding{doctor.Good("check", "found")}, nil
	})
	found, err := doctor.Examine(t.Context(), scheme+"://u:p@h1:1,h2/db?ttl=3s&wait=1")
	if err != nil || len(found) != 1 || found[0] != doctor.Good("check", "found") {
		t.Errorf("%+v, %v", found, err)
	}
	if seen != scheme+"://u:p@h1:1,h2/db?wait=1" {
		t.Errorf("the examiner was given %q", seen)
	}
	if !slices.Contains(doctor.Schemes(), scheme) {
		t.Errorf("Schemes() = %q", doctor.Schemes())
	}
	if !panics(func() {
		doctor.Register(scheme, func(context.Context, *url.URL) ([]doctor.Finding, error) { return nil, nil })
	}) {
		t.Error("a scheme was registered twice")
	}
	if !panics(func() { doctor.Register(fresh("x"), nil) }) {
		t.Error("a nil examiner was registered")
	}
}

func TestAURLThatCannotBeExaminedIsRefusedWithoutItsPassword(t *testing.T) {
	known, engine := fresh("k"), fresh("e")
	doctor.Register(known, func(context.Context, *url.URL) ([]doctor.Finding, error) { return nil, nil })
	driver.Register(engine, func(context.Context, *url.URL) (driver.Engine, error) { return nil, nil })
	for _, test := range []struct{ store, says string }{
		{known + "://u:secret@h?ttl=long", "ttl is not a duration"},
		{known + "://u:secret@h?a=%zz", "malformed parameters"},
		{known + "://u:secret@h :1", "not of the form"},
		{engine + "://u:secret@h", "has nothing to examine"},
		{"nosuch://u:secret@h", `unknown scheme "nosuch", known are `},
		{"ana:secret", "unknown scheme, known are "},
	} {
		_, err := doctor.Examine(t.Context(), test.store)
		if !errors.Is(err, driver.ErrURL) {
			t.Errorf("%s: %v is not ErrURL", test.store, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, test.says) || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
			t.Errorf("%s: %v", test.store, err)
		}
	}
}

func TestAnExaminationThatFailedOrFoundNothingIsAnError(t *testing.T) {
	away, empty := fresh("a"), fresh("n")
	gone := errors.New("gone")
	doctor.Register(away, func(context.Context, *url.URL) ([]doctor.Finding, error) { return nil, gone })
	doctor.Register(empty, func(context.Context, *url.URL) ([]doctor.Finding, error) { return nil, nil })
	if _, err := doctor.Examine(t.Context(), away+"://u:secret@host"); !errors.Is(err, gone) || err.Error() != away+"://host: gone" {
		t.Errorf("%v", err)
	}
	if _, err := doctor.Examine(t.Context(), empty+"://host"); err == nil {
		t.Error("no finding passes for a good store")
	}
}

func TestWorstIsTheHighestLevel(t *testing.T) {
	good, warn, broken := doctor.Good("a", "f"), doctor.Warn("b", "f", "m", "x"), doctor.Break("c", "f", "m", "x")
	for _, test := range []struct {
		found []doctor.Finding
		want  doctor.Level
	}{
		{nil, doctor.OK},
		{[]doctor.Finding{good}, doctor.OK},
		{[]doctor.Finding{warn, good}, doctor.Warning},
		{[]doctor.Finding{warn, broken, good}, doctor.Broken},
	} {
		if got := doctor.Worst(test.found); got != test.want {
			t.Errorf("Worst(%v) = %v", test.found, got)
		}
	}
}

func TestAFindingIsWrittenInJSONWithItsLevelAsAWord(t *testing.T) {
	f := doctor.Warn("clock", "2s ahead of ours", "meaning", "mend").At("h1")
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"check":"clock","level":"warning","found":"2s ahead of ours","meaning":"meaning","mend":"mend","node":"h1"}`
	if string(b) != want {
		t.Errorf("%s", b)
	}
	var back doctor.Finding
	if err := json.Unmarshal(b, &back); err != nil || back != f {
		t.Errorf("%+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"level":"bad"}`), &back); err == nil {
		t.Error("an unknown level was read")
	}
	if _, err := json.Marshal(doctor.Finding{Level: 7}); err == nil {
		t.Error("an unknown level was written")
	}
	if s := doctor.Level(7).String(); s != "level 7" {
		t.Error(s)
	}
}
