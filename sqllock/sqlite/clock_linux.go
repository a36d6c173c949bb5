package sqlite

import (
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// bootClock is CLOCK_BOOTTIME, which cannot be set and counts the time that the machine
// sleeps.
type bootClock struct{ id, ns string }

func systemClock() (clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	// Kernels without time namespaces have no such file.
	ns, _ := os.Readlink("/proc/self/ns/time")
	return bootClock{id: strings.TrimSpace(string(id)), ns: strings.Trim(strings.TrimPrefix(ns, "time:"), "[]")}, nil
}

func (bootClock) now() int64          { return time.Duration(driverkit.Now()).Microseconds() }
func (bootClock) wall() int64         { return wallMicros() }
func (c bootClock) boot() string      { return c.id }
func (c bootClock) namespace() string { return c.ns }
