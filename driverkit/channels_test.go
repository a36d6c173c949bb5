package driverkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

func TestPauseEndsWithItsTimeOrWithCtx(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	if !driverkit.Pause(ctx, time.Microsecond) {
		t.Error("Pause reports that ctx has ended")
	}
	cancel()
	if driverkit.Pause(ctx, time.Hour) {
		t.Error("Pause reports that an hour has passed")
	}
}

func TestSignalNeverBlocks(t *testing.T) {
	t.Parallel()
	c := make(chan struct{}, 1)
	driverkit.Signal(c)
	driverkit.Signal(c)
	if driverkit.Signal(nil); len(c) != 1 {
		t.Errorf("%d signals are pending, not one", len(c))
	}
}
