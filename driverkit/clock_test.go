package driverkit_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

func TestTheClockGoesOn(t *testing.T) {
	a := driverkit.Now()
	time.Sleep(2 * time.Millisecond)
	b := driverkit.Now()
	if d := b.Sub(a); a == 0 || d < time.Millisecond || d > time.Minute {
		t.Errorf("%v passed in two milliseconds", d)
	}
	if a.Add(time.Second).Sub(a) != time.Second {
		t.Error("Add and Sub disagree")
	}
}
