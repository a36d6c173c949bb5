package etcdlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// putOrphan puts the key of an Enter of s that was forgotten, as happens when the server
// that received it was stopped for longer than the TTL.
func putOrphan(t *testing.T, e *Engine, s *session, name string) {
	t.Helper()
	c := mutex(name)
	p := s.newClaim(c)
	s.enterUnanswered(time.Now().Add(-time.Hour), p)
	s.forget(p)
	if _, err := clientOf(e).Put(t.Context(), p.key, p.value, clientv3.WithLease(s.lease.ID)); err != nil {
		t.Fatal(err)
	}
}

func TestABeatDeletesAKeyThatWasPutAfterItsClaimWasForgotten(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string]int{"by a session that holds others": 3, "by one that holds nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine(t, []string{sharedEtcd(t).Addr()})
			a, b := open(t, e, longTTL), open(t, e, longTTL)
			busy := "busy/" + newID()
			var live []driver.Claim
			for range holds {
				c := mutex("other/" + newID())
				hold(t, a, c)
				live = append(live, c)
			}
			putOrphan(t, e, a, busy)
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
			ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
			defer cancel()
			if st, err := until(ctx, b, c, last); err != nil || !st.Held {
				t.Errorf("the claim behind it: %+v, %v", st, err)
			}
		})
	}
}

// A key that a beat took for an orphan, and that belongs to another claim by the time of
// the delete, is not deleted.
func TestAClaimThatReusesAnOrphansKeyIsNotEnded(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s, name := open(t, e, longTTL), "name/"+newID()
	was, err := clientOf(e).Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c := mutex(name)
	hold(t, s, c)
	s.mu.Lock()
	p := s.claims[c.ID]
	delete(s.claims, c.ID) // it is not known yet when the beat looks for orphans
	s.mu.Unlock()
	if err := s.deleteOrphansOf(t.Context(), [][]byte{[]byte(p.key)}, was.Header.Revision); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.claims[c.ID] = p
	s.mu.Unlock()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
		t.Errorf("%+v, %v", out[0], err)
	}
}

// After an Enter without an answer every beat asks for the keys of the lease, because the
// Enter may still arrive. Once its key was seen, it cannot arrive again.
func TestAnEnterThatWasSeenToArriveIsNotLookedForAnyMore(t *testing.T) {
	t.Parallel()
	var p interceptor
	var n count
	s := open(t, engine(t, []string{sharedEtcd(t).Addr()}, append(n.options(), p.option())...), longTTL)
	c := mutex("name/" + newID())
	p.next(puts, loseAnswer)
	_, err := s.Enter(t.Context(), c)
	expect(t, "Enter whose answer is lost", err, driver.ErrUnreachable)
	beat(t, s, c)
	if calls, _ := n.take(); calls["LeaseTimeToLive"] != 1 {
		t.Errorf("a beat while an Enter has no answer costs %v", calls)
	}
	hold(t, s, c)
	n.take()
	beat(t, s, c)
	n.expect(t, "a beat after the key was seen", map[string]int{"LeaseKeepAlive": 1, "Txn": 1})
	leave(t, s, c)
	n.expect(t, "a Leave after the key was seen", map[string]int{"DeleteRange": 1})
}

// An Enter finds its key taken by an orphan and uses another slot. After a beat has deleted
// the orphan, its slot is used again.
func TestTheSlotOfAnOrphanIsUsedAgain(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s, name := open(t, e, longTTL), "name/"+newID()
	for range 3 {
		putOrphan(t, e, s, name)
		c := mutex(name)
		wait(t, s, c)
		beat(t, s, c)
		hold(t, s, c)
		if n := s.find(c).slot.number; n != 1 {
			t.Fatalf("the claim has slot %d: slots of orphans are not used again", n)
		}
		leave(t, s, c)
	}
}

// Slots with an Enter that may still arrive are remembered, but not without a limit.
func TestSlotsWithLateEntersAreRememberedUpToALimit(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	for i := range maxLateSlots + 10 {
		p := s.newClaim(mutex(fmt.Sprint("name/", i)))
		s.enterUnanswered(time.Now().Add(-time.Hour), p)
		s.forget(p)
	}
	s.mu.Lock()
	slots, late := len(s.slots), len(s.late)
	s.mu.Unlock()
	if slots != 0 || late > maxLateSlots {
		t.Errorf("%d slots are in use, not 0, and %d have late Enters, at most %d", slots, late, maxLateSlots)
	}
	c := mutex("name/0")
	hold(t, s, c)
	if _, ok := s.startDelete(s.find(c)); ok {
		t.Error("a key is deleted unconditionally, though an Enter may arrive late at it")
	}
	leave(t, s, c)
}
