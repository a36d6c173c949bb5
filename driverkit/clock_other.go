//go:build !linux

package driverkit

import "time"

// Now returns the time since the process began. Whether it counts sleep depends on the
// system.
func Now() Instant { return Instant(time.Since(started)) + 1 }
