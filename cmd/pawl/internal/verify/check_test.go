package verify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/historytest"
)

// A long history takes minutes to check, and Ctrl-C must not wait for that.
func TestACheckEndsWithItsContext(t *testing.T) {
	h := historytest.Invent(20_000, 1, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if r, err := check(ctx, h, history.Promise{Order: true, Fencing: true}); r != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", r, err)
	}
}
