package quorum_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A store ends all claims of a session in a call or two, where Leave would take a round
// trip for each claim.
func TestCloseGivesBackManyClaimsOverASlowNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, all := hookNodes(5, func(_ int, op string, _ *driver.Claim) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 30*time.Second)
		const claims = 200
		for i := range claims {
			if st, err := s.Enter(t.Context(), mutex(fmt.Sprintf("%02x", i), fmt.Sprint("name", i))); err != nil || !st.Held {
				t.Fatal(st, err)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, m := range mem {
			if lines, _, _ := m.Size(); lines > 0 {
				t.Errorf("node %d has %d claims of %d after Close", i, lines, claims)
			}
		}
	})
}

func TestCloseReportsThatAMajorityDidNotAnswer(t *testing.T) {
	for silent, want := range []error{nil, nil, nil, driver.ErrUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			var cut atomic.Bool
			_, all := hookNodes(5, func(i int, _ string, _ *driver.Claim) error {
				if cut.Load() && i < silent {
					return driver.ErrUnreachable
				}
				return nil
			})
			e := open(t, all)
			defer e.Close()
			s := sessionOf(t, e, "s", time.Second)
			if st, err := s.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
				t.Fatal(st, err)
			}
			cut.Store(true)
			if err := s.Close(t.Context()); !errors.Is(err, want) {
				t.Errorf("%d of 5 nodes do not answer: %v, not %v", silent, err, want)
			}
		})
	}
}
