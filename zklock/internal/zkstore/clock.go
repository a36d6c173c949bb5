package zkstore

import "time"

// An Instant is a moment on this machine's clock, counted from an arbitrary origin.
type Instant time.Duration

var processStart = time.Now()

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time since o.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }
