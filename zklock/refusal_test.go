package zklock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// The order of events: two claims are held; one is evicted and another client takes its
// name; both are entered again, without queueing. The refusal of one must end the other.
func TestARefusedEnterAllEndsTheClaimsThatWereInLine(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s, rival := open(t, e, time.Minute), open(t, e, time.Minute)
	a, b, other := tries(mutex()), tries(mutex()), mutex()
	a.Name, b.Name, other.Name = "first", "second", "second"
	both := []driver.Claim{a, b}
	if out, err := s.EnterAll(t.Context(), both); err != nil || !out[0].Held || !out[1].Held {
		t.Fatalf("EnterAll: %+v, %v", out, err)
	}
	if err := e.Evict(t.Context(), listed(t, e, "second")[0]); err != nil {
		t.Fatal(err)
	}
	hold(t, rival, other)
	out, err := s.EnterAll(t.Context(), both)
	if err != nil || out[0].Held || out[1].Held {
		t.Errorf("EnterAll again: %+v, %v", out, err)
	}
	if left := listed(t, e, "first"); len(left) > 0 {
		t.Errorf("a claim of the refused call is still in line: %+v", left)
	}
}

func TestATryIsNotBlockedByALowerTryOfTheSameClaim(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	c := tries(mutex())
	first := hold(t, s, c)
	c.Try++
	if second := hold(t, s, c); second.Token <= first.Token {
		t.Errorf("token %d follows %d", second.Token, first.Token)
	}
	expectLine(t, e, c)
}

// A try that is refused ends its lower try too: it leaves no trace.
func TestARefusedTryEndsItsLowerTry(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s, rival := open(t, e, time.Minute), open(t, e, time.Minute)
	holder, c := mutex(), mutex()
	hold(t, rival, holder)
	stand(t, s, c)
	c.Try++
	if st := enter(t, s, tries(c)); st.Held || st.Gone {
		t.Errorf("%+v, not refused", st)
	}
	expectLine(t, e, holder)
}
