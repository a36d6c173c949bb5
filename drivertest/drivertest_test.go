package drivertest_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// TestSuiteInRealTime runs the suite as it runs for a real engine: in parallel,
// with the real clock, and with every second session opened by a peer.
func TestSuiteInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several TTLs of real time")
	}
	drivertest.Run(t, drivertest.Harness{
		Open:   func(*testing.T) driver.Engine { return memlock.New() },
		Peer:   func(_ *testing.T, e driver.Engine) driver.Engine { return client{e} },
		Crash:  func(driver.Session) {},
		Clean:  func(*testing.T, driver.Engine) error { return nil },
		MinTTL: 300 * time.Millisecond,
	})
}

// A client is a second engine on the same store. Closing it does not close the
// store.
type client struct{ driver.Engine }

func (client) Close() error { return nil }
