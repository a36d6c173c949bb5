package zklock

import "time"

// An instant is a moment on this machine's clock, from an origin of its own.
type instant time.Duration

var begun = time.Now()

func (i instant) add(d time.Duration) instant { return i + instant(d) }
func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }
