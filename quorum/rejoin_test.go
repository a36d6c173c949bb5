package quorum_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

func TestAQuorumThatLostAllDataDoesNotVoteEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		all := nodes(3)
		a, b := open(t, all), open(t, all)
		defer a.Close()
		defer b.Close()
		holder := sessionOf(t, a, "holder", ttl)
		if st, err := holder.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		for _, n := range all { // a power cut: all servers restart empty
			n.Engine.(*memlock.Engine).Forget()
		}
		rival, err := b.Open(t.Context(), driver.SessionOptions{ID: "rival", TTL: ttl})
		if err != nil {
			return // right: no node votes yet
		}
		st, err := rival.Enter(t.Context(), mutex("bb", "name"))
		if err == nil && st.Held {
			t.Errorf("granted while the holder's lease of %v has just begun", ttl)
		}
	})
}

func TestRejoinDoesNotCopyTheMarkOfANodeThatWasEmptiedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		var apart, armed, raised atomic.Bool
		var mem []*memlock.Engine
		var all []quorum.Node
		mem, all = hookNodes(3, func(i int, op string, c *driver.Claim) error {
			switch {
			case op == "enter" && i == 1 && apart.Load():
				return driver.ErrUnreachable // n2 misses the grants
			case op == "enter":
				c.Propose = 0 // tokens do not follow the clock
			case op == "rejoin" && i == 0 && armed.Load():
				raised.Store(true)
			case op == "mark" && i == 0 && raised.CompareAndSwap(true, false):
				armed.Store(false)
				mem[0].Forget() // after its epoch was raised, before its mark is read
			}
			return nil
		})
		e := open(t, all, quorum.WithMaxTTL(ttl))
		defer e.Close()
		s := sessionOf(t, e, "s", ttl)
		apart.Store(true)
		var last uint64
		for k := range 10 { // the marks of n1 and n3 rise, n2 misses it
			c := mutex(fmt.Sprintf("%02x", k), "name")
			st, err := s.Enter(t.Context(), c)
			if err != nil || !st.Held {
				t.Fatal(st, err)
			}
			last = st.Token
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		armed.Store(true)
		mem[2].Forget()
		_, _ = s.Enter(t.Context(), mutex("ab", "other")) // finds that n3 does not vote
		_ = s.Leave(t.Context(), mutex("ab", "other"))
		for armed.Load() {
			time.Sleep(100 * time.Millisecond)
		}
		apart.Store(false)
		time.Sleep(100 * time.Millisecond)
		// n1 has just been emptied, n3 was before: no node knows what they granted.
		st, err := s.Enter(t.Context(), mutex("ac", "name"))
		if err == nil && st.Held && st.Token <= last {
			t.Errorf("token %d after %d", st.Token, last)
		}
	})
}

// Of three nodes one was emptied, and the mark of another cannot be read: the third need
// not know what these two have granted.
func TestANodeRejoinsOnlyWithEnoughMarksToShowEveryGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		var mute atomic.Bool
		mem, all := hookNodes(3, func(i int, op string, _ *driver.Claim) error {
			if i == 1 && op == "mark" && mute.Load() {
				return driver.ErrUnreachable
			}
			return nil
		})
		e := open(t, all, quorum.WithMaxTTL(ttl))
		defer e.Close()
		s := sessionOf(t, e, "s", ttl)
		synctest.Wait()
		mute.Store(true)
		mem[2].Forget()
		if st, err := s.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held { // finds that n3 does not vote
			t.Fatal(st, err)
		}
		time.Sleep(10 * ttl)
		if mem[2].Votes() {
			t.Error("it votes with the mark of one node of three")
		}
		mute.Store(false)
		time.Sleep(10 * ttl)
		if !mem[2].Votes() {
			t.Error("it does not vote again when both tell their marks")
		}
	})
}

func TestANodeThatServesAnotherQuorumDoesNotVoteInThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		five := nodes(5)
		old := open(t, five[:3])
		defer old.Close()
		forgotten := sessionOf(t, old, "forgotten", ttl) // a client of the old quorum that was not stopped
		synctest.Wait()
		for _, n := range five {
			n.Engine.(*memlock.Engine).Forget() // the membership is deleted on every server, for a new list of nodes
		}
		e := open(t, five)
		defer e.Close()
		if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "early", TTL: ttl}); err == nil {
			t.Error("nodes that have just lost everything vote at once")
		}
		time.Sleep(2 * quorum.DefaultMaxTTL)
		s := sessionOf(t, e, "new", ttl)
		if st, err := s.Enter(t.Context(), mutex("bb", "other")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		st, err := forgotten.Enter(t.Context(), mutex("aa", "name"))
		if err == nil && st.Held {
			t.Errorf("nodes that serve a quorum of five granted as a quorum of three")
		}
	})
}
