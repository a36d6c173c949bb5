//go:build !race

package cell_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestNoRaceTenThousandUpdatesOfSixtyFourAreExact(t *testing.T) {
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Place) {
		began := time.Now()
		count(t, open, 64, 64, 64*157)
		t.Logf("%d updates in %v", 64*157, time.Since(began).Round(time.Millisecond))
	})
}
