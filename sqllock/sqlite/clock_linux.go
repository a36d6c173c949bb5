package sqlite

import (
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// systemClock is CLOCK_BOOTTIME, which cannot be set and counts the time that the machine
// sleeps.
func systemClock() (clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, err
	}
	// Kernels without time namespaces have no such file.
	space, _ := os.Readlink("/proc/self/ns/time")
	return clock{
		now:       func() int64 { return time.Duration(driverkit.Now()).Microseconds() },
		wall:      wallMicros,
		boot:      strings.TrimSpace(string(boot)),
		namespace: strings.Trim(strings.TrimPrefix(space, "time:"), "[]"),
	}, nil
}
