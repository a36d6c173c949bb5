package otelpawl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/observe"
	otelpawl "github.com/pawl-go/pawl/observe/otel"
)

// Providers that do nothing, as without an SDK, and events without a context are fine.
func TestEveryEventIsTakenWithoutAnSDK(t *testing.T) {
	t.Parallel()
	o, err := otelpawl.New(otelpawl.WithName(), otelpawl.WithClass(func(name string) string { return name }))
	if err != nil {
		t.Fatal(err)
	}
	for kind := pawl.Kind(1); kind.String() != "unknown"; kind++ {
		for mode := pawl.Exclusive; mode <= pawl.Counted; mode++ {
			for _, cause := range observe.Causes {
				o.Observe(pawl.Event{Kind: kind, Name: "a", Mode: mode, Cause: cause, Took: time.Second, Err: errors.New("no")})
			}
		}
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}
