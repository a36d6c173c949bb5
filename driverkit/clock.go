package driverkit

import "time"

// An Instant is a moment on a clock that cannot be set and, where the system has such a
// clock, goes on while the machine sleeps. An engine measures with it how old an answer
// of its store is: after a night's sleep the answer is a night old, though the time of
// package time has stood still. Its origin is unspecified; zero is never returned by Now.
type Instant time.Duration

// Add returns i plus d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// started is when the process began, for systems without a clock that counts sleep.
var started = time.Now()
