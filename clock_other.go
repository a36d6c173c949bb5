//go:build !linux

package pawl

import (
	"sync/atomic"
	"time"
)

// started keeps its wall clock reading only: Round strips the monotonic one.
var started, startedMono = time.Now().Round(0), time.Now()

var slept atomic.Int64

// machineAsleep returns by how much the wall clock has outrun the monotonic one.
// There is no portable clock that counts sleep here; a wall clock set forward
// looks like sleep and ends leases early, which is the safe side, and one set
// back changes nothing.
func machineAsleep(now time.Time) time.Duration {
	lead := int64(now.Round(0).Sub(started) - now.Sub(startedMono))
	for {
		known := slept.Load()
		if lead-known < int64(100*time.Millisecond) {
			return time.Duration(known)
		}
		if slept.CompareAndSwap(known, lead) {
			return time.Duration(lead)
		}
	}
}
