package pawl

import (
	"context"
	"testing"

	"github.com/pawl-go/pawl/memlock"
)

// The keeper has written down that a lease is lost, and the machine takes the
// processor from it before it comes to the contexts. Whoever asks meanwhile must
// hear one answer, whichever way it asks.
func TestALeaseThatIsBeingEndedHasEndedForEverybody(t *testing.T) {
	c := New(memlock.New())
	defer c.Close()
	one := must(t)(c.Mutex("one").Lock(t.Context()))
	both := must(t)(c.LockAll(t.Context(), []string{"a", "b"}))
	why := errLate
	one.why.Store(&why) // as end does first
	both.parts[1].why.Store(&why)
	for _, l := range []*Lease{one, both.parts[1], both} {
		wantErr(t, l.Err(), ErrLost)
		wantErr(t, l.Context().Err(), context.Canceled)
		wantErr(t, context.Cause(l.Context()), ErrLost)
		select {
		case <-l.Context().Done():
		default:
			t.Errorf("%q: its context goes on after it said that it has ended", l.Name())
		}
	}
}
