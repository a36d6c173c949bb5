package verify

import (
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/history"
)

// now reads the clock that all processes of a machine share.
func now() history.Time { return history.Time(driverkit.Now()) }
