//go:build !linux

package verify

import (
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// now reads the clock that all processes of a machine share. Here that is the one which
// can be set: if it is stepped during a run, the result is worth nothing. The clock of
// driverkit begins with the process.
func now() history.Time { return history.Time(time.Now().UnixNano()) }
