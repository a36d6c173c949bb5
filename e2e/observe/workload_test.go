package observe_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/eventcheck"
	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestMain(m *testing.M) {
	code := recipetest.Main(m)
	pawlCommand.remove()
	os.Exit(code)
}

// After a random workload with faults, on every store: the gauges are zero, and counters and
// histograms have what the clients counted.
func TestGaugesAreZeroAndCountersAddUpAfterFaults(t *testing.T) {
	t.Parallel()
	eventcheck.Each(t, func(t *testing.T) ([]pawl.Option, func(*testing.T, pawl.Stats)) {
		o := observeAll(t)
		return o.options(), func(t *testing.T, sum pawl.Stats) {
			o.awaitSame(t, "after the workload")
			fromProm := metrics(t, o.fromProm)
			expectTotals(t, fromProm, sum)
			expectOutcomes(t, fromProm, sum)
			for name, v := range fromProm {
				if oldest := strings.HasPrefix(name, "pawl_oldest_wait_seconds"); oldest && v != "GAUGE more than 0: false" {
					t.Errorf("%s is %q", name, v)
				}
			}
		}
	})
}

// expectOutcomes compares each way in which acquires and holds end.
func expectOutcomes(t *testing.T, got map[string]string, sum pawl.Stats) {
	t.Helper()
	for label, want := range map[string]uint64{
		"outcome=acquired": sum.Acquired, "outcome=handed_over": sum.HandedOver, "outcome=gave_up": sum.GaveUp, "outcome=refused": sum.Refused,
		"end=released": sum.Released, "end=lost": sum.Lost,
	} {
		part := map[string]string{}
		for name, v := range got {
			if strings.Contains(name, label) {
				part[name] = v
			}
		}
		if n := total(part, "pawl_acquire_seconds") + total(part, "pawl_hold_seconds"); n != float64(want) {
			t.Errorf("%s is %v in all, and %d in Stats", label, n, want)
		}
	}
}
