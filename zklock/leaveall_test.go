package zklock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A storm of calls that are given up: their claims are of one name, and leave in as few
// requests as there are Multis of 128. One was evicted meanwhile: the others leave all the same.
func TestManyClaimsLeaveInFewRequests(t *testing.T) {
	t.Parallel()
	const many = 300
	e, n := counting(t, pathOf(t))
	s, holder := open(t, e, time.Minute), mutex()
	hold(t, s, holder)
	var cs []driver.Claim
	for range many {
		cs = append(cs, mutex())
		stand(t, s, cs[len(cs)-1])
	}
	n.take()
	leaveMany := func(cs []driver.Claim) []error {
		out := make([]error, len(cs))
		s.LeaveAll(t.Context(), cs, out)
		return out
	}
	for i, err := range leaveMany(cs[:many-10]) {
		if err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
	}
	n.expect(t, "leaving 290 claims", 3)
	expectLine(t, e, append([]driver.Claim{holder}, cs[many-10:]...)...)

	cs = cs[many-10:]
	s.mu.Lock()
	evicted := e.linePath("job") + "/" + s.claims[cs[4].ID].node
	s.mu.Unlock()
	if err := raw(t).Delete(evicted, -1); err != nil {
		t.Fatal(err)
	}
	for i, err := range leaveMany(append(cs, holder)) {
		if gone := errors.Is(err, driver.ErrGone); gone != (i == 4) || err != nil && !gone {
			t.Errorf("claim %d: %v", i, err)
		}
	}
	expectLine(t, e)
}
