package engines_test

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/eventcheck"
)

// Whatever happens to the store, to the links and to the claims: every wait and every
// hold has its end, and the client's numbers add up.
func TestEventsAddUpAfterFaults(t *testing.T) { // not beside other tests: it computes
	eventcheck.Each(t, func(*testing.T) ([]pawl.Option, func(*testing.T, pawl.Stats)) { return nil, nil })
}
