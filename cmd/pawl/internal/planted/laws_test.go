package planted

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
)

func TestLaws(t *testing.T) {
	server := serve(t, "")
	open := func(t *testing.T) driver.Engine { return connect(t, server, nil) }
	drivertest.Run(t, drivertest.Harness{
		Open:   open,
		Peer:   func(t *testing.T, _ driver.Engine) driver.Engine { return open(t) },
		MinTTL: 300 * time.Millisecond,
	})
}
