package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/memlock"
)

// Whoever goes on after errors, as the documentation says, must not go on for ever.
func TestObserveEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := 0
	for l, err := range election.New(c, "job").Observe(ctx) {
		switch seen++; seen {
		case 1:
			if err != nil || !l.Vacant() {
				t.Fatalf("%+v, %v, not a vacancy", l, err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		case 2:
			if !errors.Is(err, pawl.ErrClosed) {
				t.Fatalf("%+v, %v, not ErrClosed", l, err)
			}
		default:
			t.Fatalf("it goes on: %+v, %v", l, err)
		}
	}
	if seen != 2 {
		t.Errorf("it ended without a word")
	}
}
