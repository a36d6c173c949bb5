//go:build !race

package observe

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// Ten thousand waits are kept without allocations, and an end of the oldest costs no more than
// with few.
func TestNoRaceWaitsDoNotAllocate(t *testing.T) {
	const waits = 10_000
	var w Waits
	now := time.Now()
	begun := make([]time.Time, 0, waits)
	for range waits {
		now = now.Add(time.Microsecond)
		begun = append(begun, now)
		w.Observe(at(pawl.Waiting, now, now))
	}
	i := 0
	turn := func() {
		now = now.Add(time.Microsecond)
		w.Observe(at(pawl.HandedOver, begun[i%waits], now))
		w.Observe(at(pawl.Waiting, now, now))
		begun[i%waits] = now
		i++
	}
	for range 3 * waits { // until there is room
		turn()
	}
	if n := testing.AllocsPerRun(waits, turn); n != 0 {
		t.Errorf("%v allocations for an end and a begin", n)
	}
	took := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			turn()
		}
	})
	t.Logf("%d wait: %d ns for an end and a begin", waits, took.NsPerOp())
	if w.Len() != waits {
		t.Errorf("%d wait, want %d", w.Len(), waits)
	}
}
