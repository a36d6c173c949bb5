package zklock

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the time since boot, sleep included: a machine that slept must not take
// an old answer of the servers for a new one.
func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return instant(time.Since(begun)) // no kernel since 2011 lacks it
	}
	return instant(ts.Nano())
}
