package pawl

import (
	"context"
	"testing"

	"github.com/pawl-go/pawl/memlock"
)

// The keeper has recorded that a lease is lost, and is preempted before it ends the
// contexts. Err, Context and Unlock must agree meanwhile.
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
