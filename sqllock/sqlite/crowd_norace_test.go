//go:build !race && linux

package sqlite

import "testing"

// Ten times as many processes on one machine cannot hold a name more often than the few;
// but if each looked at each change, it would be held fifty times more rarely.
func TestNoRaceAHundredProcessesHoldANameAtLeastATenthAsOftenAsTen(t *testing.T) {
	few := startRivals(t, 10).rate(t)
	many := startRivals(t, 100).rate(t)
	t.Logf("%.0f holds/s with 10 processes, %.0f with 100", few, many)
	if many < few/10 {
		t.Errorf("%.0f holds/s with 100 processes, at least a tenth of the %.0f with 10", many, few)
	}
}
