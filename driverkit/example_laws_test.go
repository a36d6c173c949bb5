package driverkit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
)

// An example that breaks a law would teach the wrong thing.
func TestTheExampleKeepsTheLaws(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Open:   func(*testing.T) driver.Engine { return newKVEngine(newKVStore()) },
		Peer:   func(_ *testing.T, e driver.Engine) driver.Engine { return newKVEngine(e.(*kvEngine).kv) },
		Around: synctest.Test,
		MinTTL: time.Second,
	})
}
