package pawl

import (
	"time"

	"github.com/pawl-go/pawl/internal/claimset"
)

// An instant is a moment on a clock that goes on while the machine sleeps.
// Go's own clock and timers stand still then, so a lease measured with them
// would seem alive after a night in a closed laptop.
type instant = claimset.Instant

// clockBase is when the process started. clockLead keeps instants positive, so
// that zero can mean none: a synctest bubble starts in the year 2000.
var clockBase = time.Now()

const clockLead = 64 * 365 * 24 * time.Hour

// clock tells instants. Monotonic time comes from package time, so that a
// synctest bubble moves it; asleep adds the time the machine has slept, which only
// ever grows.
type clock struct {
	asleep func(now time.Time) time.Duration
}

func (k clock) now() instant {
	now, _ := k.both()
	return now
}

// both returns the same moment as an instant and as a time.Time, for the cost of
// reading the clock once.
func (k clock) both() (instant, time.Time) {
	now := time.Now()
	return instant(clockLead + now.Sub(clockBase) + k.asleep(now)), now
}

// wall turns an instant into a time for display and for Lease.Deadline.
func (k clock) wall(i instant) time.Time { return time.Now().Add(i.Sub(k.now())) }
