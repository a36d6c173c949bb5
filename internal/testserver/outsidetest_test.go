package testserver

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestAServerOutsideATestEndsWithTheFunction(t *testing.T) {
	t.Parallel()
	var s *Server
	err := RunOutsideTest(func(outside testing.TB) {
		s = Start(outside, fakeServer(t, "tiny"))
		expectAnswer(t, s, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	expectDown(t, s)
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}

// Not parallel, because it changes the environment.
func TestOutsideATestAMissingServerIsAnError(t *testing.T) {
	t.Setenv("CI", "")
	spec := Spec{Name: "nothing", Package: "nothing-server", Binary: File{"pawl-no-such-server"}}
	err := RunOutsideTest(func(outside testing.TB) {
		Start(outside, spec)
		t.Error("went on")
	})
	if !errors.Is(err, ErrSkipped) || !strings.Contains(err.Error(), "nothing-server") {
		t.Errorf("%v, want a skip that names the package", err)
	}
}
