package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A List whose caller goes away leaves its call to the library behind, which writes
// its answer when it comes: nobody else may look at it. The race detector tells.
func TestAListThatIsCalledOffLeavesItsAnswerAlone(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{one(t)})
	s := open(t, e, 10*time.Second)
	if _, err := s.Enter(t.Context(), driver.Claim{ID: "00000000000000000000000000000001", Try: 1, Name: t.Name(), Need: 1, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*5*time.Microsecond, cancel)
		for _, err := range e.List(ctx, "") {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		cancel()
	}
}
