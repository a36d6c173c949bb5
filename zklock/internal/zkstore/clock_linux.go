package zkstore

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since boot, suspension included: after a suspension an old answer of the
// servers must not count as a new one.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Instant(time.Since(processStart)) // no kernel since 2011 lacks it
	}
	return Instant(ts.Nano())
}
