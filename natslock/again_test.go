package natslock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// One client only reads. The bucket is deleted and made anew by another.
func TestWhoOnlyReadsFindsABucketThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	reader, writer := New(connect(t, addr)), New(connect(t, addr))
	defer reader.Close()
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	store := func() {
		t.Helper()
		for { // once it has not noticed
			_, err := writer.Store(ctx, "key", []byte("value"), 0, 0)
			if err == nil {
				return
			}
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Fatal(err)
			}
		}
	}
	store()
	if value, _, err := reader.Load(ctx, "key"); err != nil || string(value) != "value" {
		t.Fatalf("%q, %v", value, err)
	}
	if err := connect(t, addr).DeleteStream(ctx, natsstore.StreamName(defaultBucket)); err != nil {
		t.Fatal(err)
	}
	store()
	for {
		value, _, err := reader.Load(ctx, "key")
		if string(value) == "value" {
			return
		}
		if err != nil && !errors.Is(err, driver.ErrUnreachable) || !driverkit.Pause(ctx, 50*time.Millisecond) {
			t.Fatalf("%q, %v: it never finds the new bucket", value, err)
		}
	}
}
