//go:build !race

package cell_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestNoRaceUpdatesOfSixtyFourClientsAreExact(t *testing.T) {
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) { count(t, open, 64, 2*time.Second) })
}
