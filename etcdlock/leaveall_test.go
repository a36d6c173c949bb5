package etcdlock

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// A storm of calls that are given up: their claims are of one name, and leave in as few calls
// as there are transactions of 128. One was evicted meanwhile: the others leave all the same.
func TestManyClaimsLeaveInFewCalls(t *testing.T) {
	t.Parallel()
	const many = 300
	var n count
	e := engine(t, []string{sharedEtcd(t).Addr()}, n.options()...)
	s, name := open(t, e, longTTL), "left/"+newID()
	holder := mutex(name)
	hold(t, s, holder)
	var cs []driver.Claim
	for range many {
		cs = append(cs, mutex(name))
		wait(t, s, cs[len(cs)-1])
	}
	s.mu.Lock()
	evicted := s.claims[cs[4].ID].key
	s.mu.Unlock()
	if _, err := clientOf(e).Delete(t.Context(), evicted); err != nil {
		t.Fatal(err)
	}
	n.take()
	out := make([]error, many)
	s.LeaveAll(t.Context(), cs, out)
	n.expect(t, "leaving 300 claims", map[string]int{"Txn": 3})
	for i, err := range out {
		if gone := errors.Is(err, driver.ErrGone); gone != (i == 4) || err != nil && !gone {
			t.Errorf("claim %d: %v", i, err)
		}
	}
	if keys := keysOf(t, e, name); len(keys) != 1 {
		t.Errorf("in line: %q", keys)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) != 1 || len(s.slots) != 1 {
		t.Errorf("%d claims and %d slots are remembered, not the holder's", len(s.claims), len(s.slots))
	}
}

// The order of events: several claims leave and the answer is lost; another claim is entered,
// and they leave again. It must not have the key of one of them.
func TestALostAnswerToManyDeparturesEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	for kind, lose := range map[string]func(func() error) error{"answer": loseAnswer, "request": loseRequest} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var p interceptor
			e := engine(t, []string{sharedEtcd(t).Addr()}, p.option())
			s, name := open(t, e, longTTL), "left/"+newID()
			cs := []driver.Claim{mutex(name), mutex(name), mutex(name)}
			hold(t, s, cs[0])
			wait(t, s, cs[1])
			wait(t, s, cs[2])
			p.next(deletes, lose)
			out := make([]error, len(cs))
			s.LeaveAll(t.Context(), cs, out)
			for i, err := range out {
				if !errors.Is(err, driver.ErrUnreachable) {
					t.Errorf("claim %d: %v, without an answer", i, err)
				}
			}
			later := mutex(name)
			enter(t, s, later)
			s.LeaveAll(t.Context(), cs, out)
			for i, err := range out {
				if err != nil && !errors.Is(err, driver.ErrGone) {
					t.Errorf("claim %d: %v", i, err)
				}
			}
			if st := enter(t, s, later); !st.Held {
				t.Errorf("the later claim: %+v", st)
			}
			if keys := keysOf(t, e, name); len(keys) != 1 {
				t.Errorf("in line: %q", keys)
			}
		})
	}
}
