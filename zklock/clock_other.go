//go:build !linux

package zklock

import "time"

// now is the time since the program began; whether it counts sleep depends on
// the system.
func now() instant { return instant(time.Since(begun)) }
