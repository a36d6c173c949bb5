package kvline

import (
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// A moment is read from two clocks. One of them also counts while the machine sleeps, the
// other one is that of timers, which tests can set.
type moment struct {
	boot  driverkit.Instant
	timer time.Time
}

func present() moment { return moment{driverkit.Now(), time.Now()} }

func (m moment) age() time.Duration { return max(driverkit.Now().Sub(m.boot), time.Since(m.timer)) }
