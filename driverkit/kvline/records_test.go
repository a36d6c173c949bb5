package kvline_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// The store deletes what has expired some time later, or never.
func TestARecordThatHasExpiredHasNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := kvline.New("memory", newMemory(), driver.Volatile)
		defer e.Close()
		version, err := e.Store(t.Context(), "key", []byte("first"), 0, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if v, err := e.Store(t.Context(), "key", []byte("second"), version, 0); v != 0 || !errors.Is(err, driver.ErrConflict) {
			t.Errorf("%d, %v", v, err)
		}
		if _, err := e.Store(t.Context(), "key", []byte("third"), 0, 0); err != nil {
			t.Error(err)
		}
	})
}
