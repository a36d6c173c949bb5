//go:build !linux

package zkstore

import "time"

// Now is the time since the program started; whether it includes suspension depends on
// the system.
func Now() Instant { return Instant(time.Since(processStart)) }
