package drivertest_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// engineVar is the environment variable with the name of the engine that a child
// process tests.
const engineVar = "PAWL_DRIVERTEST_ENGINE"

// goroutinesEnd is the law that the teardown of every case checks.
const goroutinesEnd = 9

func testEngines() []testEngine {
	return slices.Concat(limitedEngines, brokenLines, brokenWakes, brokenNames, brokenTokens, brokenEnds, brokenOptional)
}

// TestOneEngine is what the child processes of TestSuiteFindsBrokenLaws run.
func TestOneEngine(t *testing.T) {
	name := os.Getenv(engineVar)
	if name == "" {
		return
	}
	i := slices.IndexFunc(testEngines(), func(m testEngine) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("no engine %q", name)
	}
	m := testEngines()[i]
	h := drivertest.Harness{
		Open: func(*testing.T) driver.Engine {
			engine := &overridden{Engine: memlock.New()}
			m.override(engine)
			return engine
		},
		Around: synctest.Test,
		MinTTL: time.Second,
	}
	switch {
	case m.law == 0:
		drivertest.Run(t, h)
	case m.law == goroutinesEnd:
		drivertest.ExpectLeaks()
		fallthrough
	default:
		drivertest.RunLaw(t, h, m.law)
	}
}

// TestSuiteFindsBrokenLaws shows that every check can fail. Each broken engine
// violates one law; a case of that law must fail and print the law. Only the cases
// of that law run, up to the first failure. The limited engines keep all laws and
// must pass all cases. Each engine runs in a process of its own because a test
// cannot expect a subtest to fail.
func TestSuiteFindsBrokenLaws(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process per engine")
	}
	for _, m := range testEngines() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneEngine$", "-test.failfast", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), engineVar+"="+m.name)
			out, err := cmd.CombinedOutput()
			failed := failedCases(string(out))
			switch {
			case m.law == 0 && err != nil:
				t.Errorf("the suite fails on an engine that breaks nothing:\n%s", out)
			case m.law != 0 && err == nil:
				t.Errorf("the cases of law %d pass on an engine that breaks it", m.law)
			case m.law != 0 && !strings.Contains(string(out), fmt.Sprintf("law %d: ", m.law)):
				t.Errorf("law %d is not named; failed are %q\n%s", m.law, failed, tail(string(out), 3000))
			default:
				t.Logf("found by %q", failed)
			}
		})
	}
}

var failedCase = regexp.MustCompile(`(?m)^\s+--- FAIL: TestOneEngine/(\S+)`)

func failedCases(out string) (names []string) {
	for _, m := range failedCase.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return names
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
