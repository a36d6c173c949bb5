package etcdlock

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// strand has an Enter of s land that nobody remembers, as one does that was sent to a
// server which then stood still for longer than the TTL.
func strand(t *testing.T, s *session, name string) {
	t.Helper()
	c := mutex(name)
	p := s.newSpot(c)
	s.unsure(time.Now().Add(-time.Hour), p)
	s.forget(p)
	if _, err := s.e.client.Put(t.Context(), p.key, p.label, clientv3.WithLease(s.lease)); err != nil {
		t.Fatal(err)
	}
}

func TestAnEnterThatLandsWhenNobodyRemembersItIsEndedByABeat(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string]int{"by a session that holds others": 3, "by one that holds nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine(t, []string{common(t).Addr()})
			a, b := open(t, e, unbeaten), open(t, e, unbeaten)
			busy := "busy/" + newID()
			var live []driver.Claim
			for range holds {
				c := mutex("other/" + newID())
				hold(t, a, c)
				live = append(live, c)
			}
			strand(t, a, busy)
			c := mutex(busy)
			last := wait(t, b, c)
			out := make([]driver.Standing, len(live))
			if err := a.Beat(t.Context(), live, out); err != nil {
				t.Fatal(err)
			}
			for i, st := range out {
				if !st.Held {
					t.Errorf("claim %d: %+v", i, st)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			if st, err := until(ctx, b, c, last); err != nil || !st.Held {
				t.Errorf("behind it: %+v, %v", st, err)
			}
		})
	}
}

// A key that a beat has seen, and that is another claim's by the time it would be
// deleted, stays.
func TestAClaimThatHasAStraysKeySinceIsNotEnded(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s, name := open(t, e, unbeaten), "name/"+newID()
	was, err := e.client.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c := mutex(name)
	hold(t, s, c)
	s.mu.Lock()
	p := s.spots[c.ID]
	delete(s.spots, c.ID) // it is not known yet when strays are looked for
	s.mu.Unlock()
	if err := s.deleteStrays(t.Context(), [][]byte{[]byte(p.key)}, was.Header.Revision); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.spots[c.ID] = p
	s.mu.Unlock()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
		t.Errorf("%+v, %v", out[0], err)
	}
}
